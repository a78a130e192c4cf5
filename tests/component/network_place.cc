#include "tests/component/network_place.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace larder::test {
namespace {

Fd this_place() {
  return Fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
}

}  // namespace

NetworkPlace::NetworkPlace() {
  int failed = 0;
  // Not this thread: this thread stays in its namespace in any case.
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      failed = errno;
      return;
    }
    run_quietly("ip link set lo up");
    place_ = this_place();
  }).join();
  if (failed != 0)
    throw std::runtime_error(std::string("no network namespace can be made: ") +
                             std::strerror(failed));
}

void NetworkPlace::within(const std::function<void()>& work) const {
  struct Return {
    const Fd home = this_place();
    ~Return() { static_cast<void>(::setns(home.get(), CLONE_NEWNET)); }
  } const back;
  if (::setns(place_.get(), CLONE_NEWNET) != 0) throw std::runtime_error("setns");
  work();
}

std::string NetworkPlace::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(place_.get());
}

bool run_quietly(const std::string& command) {
  return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace larder::test
