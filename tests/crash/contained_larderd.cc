// larderd as process 1 of a container. REQUIRES: started inside a NewPidNamespace.
#include "tests/crash/container.h"

int main(int /*count*/, char** arguments) {
  if (::getpid() != 1 || !larder::crash::mount_own_proc()) return 70;
  ::execv(LARDERD_PATH, arguments);
  return 127;
}
