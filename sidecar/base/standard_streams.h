// Descriptors 0 to 2, in a program whose starter closed some of them. Call it first in main(): a file that takes number 2 would be
// written to by every log line.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace larder::base {

// Opens those that are closed on /dev/null.
inline void open_standard_streams() {
  int fd = ::open("/dev/null", O_RDWR);
  while (fd >= STDIN_FILENO && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace larder::base
