// Descriptors 0 to 2 of a program: opened even if the parent process closed some, and checked at
// the end. Thread-compatible.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace larder::base {

// Opens closed descriptors of 0 to 2 on /dev/null. Call it first in main(): every log line would
// go into a file that got number 2.
inline void open_standard_streams() {
  int fd = ::open("/dev/null", O_RDWR);
  while (fd >= STDIN_FILENO && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) ::close(fd);
}

// The exit status of main(): `status`, or 1 instead of 0 if standard output did not take all
// output. A truncated configuration or page must not look complete; a line on standard error gives
// the reason.
inline int after_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fputs(
      "not all of the output could be written: its file system is full, or its size is limited "
      "(ulimit -f)\n",
      stderr);
  return status == 0 ? 1 : status;
}

}  // namespace larder::base
