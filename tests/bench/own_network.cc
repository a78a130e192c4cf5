#include "tests/bench/own_network.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "shim/base/fd.h"

namespace larder::bench {
namespace {

// of the opener's namespace
constexpr const char* kCongestion = "/proc/sys/net/ipv4/tcp_congestion_control";

void must(bool done, const char* what) {
  if (!done)
    throw std::runtime_error(std::string("no network of its own here: ") + what + ": " +
                             std::strerror(errno));
}

}  // namespace

void enter_own_network(const std::string& congestion) {
  must(::unshare(CLONE_NEWNET) == 0, "a namespace");
  // First of all: the later code may fail, and connections are there.
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  must(::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0, "loopback that goes up");
  if (congestion.empty()) return;
  std::ofstream file(kCongestion);
  file << congestion << std::flush;
  must(file.good(), "that congestion control");
}

std::string tcp_congestion() {
  std::string name;
  std::ifstream(kCongestion) >> name;
  return name;
}

}  // namespace larder::bench
