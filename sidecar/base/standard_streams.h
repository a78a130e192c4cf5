// Descriptors 0 to 2 of a program: open from the start, also where its starter closed some of them, and written to the end.
// Thread-compatible.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace larder::base {

// Opens those that are closed on /dev/null. Call it first in main(): a file that takes number 2 would be written to by every log line.
inline void open_standard_streams() {
  int fd = ::open("/dev/null", O_RDWR);
  while (fd >= STDIN_FILENO && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) ::close(fd);
}

// `status`, which main() is about to return; 1 in place of 0 where standard output did not take all that was printed, which a line says:
// a configuration or a page that is cut off must not look whole.
inline int after_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fputs("not all of the output could be written: its file system is full, or its size is limited (ulimit -f)\n", stderr);
  return status == 0 ? 1 : status;
}

}  // namespace larder::base
