#include "tests/bench/delayed_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

#include "sidecar/base/clock.h"
#include "tests/bench/own_network.h"

namespace larder::bench {
namespace {

constexpr const char* kNearAddress = "198.18.0.1";
constexpr const char* kMask = "255.255.255.252";
constexpr std::size_t kMostPacket = 2048;
constexpr std::uint64_t kLookNs = 50'000'000;  // that the thread takes at most to see the end

void must(bool done, const char* what) {
  if (!done)
    throw std::runtime_error(std::string("no delayed network here: ") + what + ": " +
                             std::strerror(errno));
}

Fd own_space() {
  Fd fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  must(fd.valid(), "/proc/thread-self/ns/net");
  return fd;
}

ifreq named(const char* device) {
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  return request;
}

void set_address(const Fd& socket, const char* device, unsigned long what, const char* text) {
  ifreq request = named(device);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  ::inet_pton(AF_INET, text, &name.sin_addr);
  std::memcpy(&request.ifr_addr, &name, sizeof(name));
  must(::ioctl(socket.get(), what, &request) == 0, "an address");
}

// A namespace of its own for this thread, with a device of this address.
Fd make_end(const char* address, const std::string& congestion) {
  enter_own_network(congestion);
  Fd device(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  must(device.valid(), "/dev/net/tun");
  ifreq request = named("larder0");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  must(::ioctl(device.get(), TUNSETIFF, &request) == 0, "TUNSETIFF");
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  set_address(socket, "larder0", SIOCSIFADDR, address);
  set_address(socket, "larder0", SIOCSIFNETMASK, kMask);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  must(::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0, "a device that goes up");
  return device;
}

}  // namespace

DelayedLink::DelayedLink(const std::string& congestion) {
  far_ = make_end(kFarAddress, congestion);
  far_space_ = own_space();
  near_ = make_end(kNearAddress, congestion);
  near_space_ = own_space();
  carrier_ = std::jthread([this](const std::stop_token& stop) { carry(stop); });
}

std::string DelayedLink::congestion() const {
  return tcp_congestion();
}

void DelayedLink::at_far_end(const std::function<void()>& work) const {
  must(::setns(far_space_.get(), CLONE_NEWNET) == 0, "setns");
  work();
  must(::setns(near_space_.get(), CLONE_NEWNET) == 0, "setns");
}

void DelayedLink::carry(const std::stop_token& stop) {
  ::prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds
  const base::MonotonicClock clock;
  std::array<Way, 2> ways{Way{near_.get(), far_.get(), {}}, Way{far_.get(), near_.get(), {}}};
  std::array<char, kMostPacket> packet;
  while (!stop.stop_requested()) {
    const std::uint64_t now = clock.now_ns();
    std::uint64_t next = now + kLookNs;
    for (Way& way : ways) {
      // Without a delay packets go on at once.
      for (ssize_t got = 0; (got = ::read(way.from, packet.data(), packet.size())) > 0;)
        way.held.push_back({clock.now_ns() + delay_ns_, {packet.data(), packet.data() + got}});
      for (; !way.held.empty() && way.held.front().due_ns <= clock.now_ns(); way.held.pop_front()) {
        const std::vector<char>& bytes = way.held.front().bytes;
        // else the packet is lost, as on a network
        [[maybe_unused]] const auto written = ::write(way.to, bytes.data(), bytes.size());
      }
      if (!way.held.empty()) next = std::min(next, way.held.front().due_ns);
    }
    const std::uint64_t then = clock.now_ns(), wait = next > then ? next - then : 0;
    std::array<pollfd, 2> ready{pollfd{near_.get(), POLLIN, 0}, pollfd{far_.get(), POLLIN, 0}};
    const timespec timeout{static_cast<time_t>(wait / 1'000'000'000),
                           static_cast<long>(wait % 1'000'000'000)};
    ::ppoll(ready.data(), ready.size(), &timeout, nullptr);
  }
}

}  // namespace larder::bench
