#include "tests/component/far_network.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <random>
#include <stdexcept>
#include <vector>

namespace larder::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostUnderWay = 4096;  // packets; like a router, the wire loses the rest

void must(bool happened, const std::string& what) {
  if (!happened) throw std::runtime_error(what);
}

// Of the namespace in which this thread is.
Fd open_device(const char* address) {
  Fd device(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  ifreq wanted{};
  wanted.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strncpy(wanted.ifr_name, "wire", IFNAMSIZ - 1);
  must(device.valid() && ::ioctl(device.get(), TUNSETIFF, &wanted) == 0,
       "neither netem in this kernel nor a TUN device: " + std::string(std::strerror(errno)));
  must(run_quietly("ip addr add " + std::string(address) + "/24 dev wire && ip link set wire up"),
       "the TUN device cannot be set up");
  return device;
}

}  // namespace

FarNetwork::FarNetwork(unsigned delay_ms, unsigned lost_percent)
    : delay_ms_(delay_ms), lost_percent_(lost_percent) {
  // The oldest rule of TCP, which is everywhere, and slow where packets are lost.
  for (const NetworkPlace* place : {&near_, &far_})
    place->within([] { run_quietly("echo reno > /proc/sys/net/ipv4/tcp_congestion_control"); });
  if (!join_by_netem()) join_by_thread();
}

FarNetwork::~FarNetwork() {
  ended_ = true;
  if (carrier_.joinable()) carrier_.join();
}

bool FarNetwork::join_by_netem() {
  const std::string delays = "tc qdisc add dev wire root netem delay " + std::to_string(delay_ms_) +
                             "ms loss " + std::to_string(lost_percent_) + "%";
  bool joined = false;
  const auto join = [&](const char* address) {
    joined = joined && run_quietly("ip addr add " + std::string(address) +
                                   "/24 dev wire && ip link set wire up && " + delays);
  };
  near_.within([&] {
    joined =
        run_quietly("ip link add wire type veth peer name wire-far && ip link set wire-far netns " +
                    far_.path());
    join(kNear);
  });
  far_.within([&] {
    joined = joined && run_quietly("ip link set wire-far name wire");
    join(kFar);
  });
  if (joined) kind_ = "tc netem";
  if (!joined) near_.within([] { run_quietly("ip link del wire"); });  // and the peer
  return joined;
}

void FarNetwork::join_by_thread() {
  near_.within([&] { near_device_ = open_device(kNear); });
  far_.within([&] { far_device_ = open_device(kFar); });
  kind_ = "a thread between two TUN devices (no netem in this kernel)";
  carrier_ = std::thread([this] { carry(); });
}

void FarNetwork::carry() const {
  struct Packet {
    Clock::time_point due;
    int to;
    std::vector<char> bytes;
  };
  std::deque<Packet> under_way;  // all take the same time
  std::minstd_rand random(20261122);
  std::array<char, 65536> piece;
  const auto take = [&](int from, int to) {
    for (ssize_t got = 0; (got = ::read(from, piece.data(), piece.size())) > 0;) {
      if (cut_ || random() % 100 < lost_percent_ || under_way.size() >= kMostUnderWay) continue;
      under_way.push_back({Clock::now() + std::chrono::milliseconds(delay_ms_),
                           to,
                           {piece.data(), piece.data() + got}});
    }
  };
  while (!ended_) {
    pollfd waited[2] = {{near_device_.get(), POLLIN, 0}, {far_device_.get(), POLLIN, 0}};
    std::chrono::nanoseconds wait = std::chrono::milliseconds(50);
    if (!under_way.empty())
      wait = std::clamp<std::chrono::nanoseconds>(under_way.front().due - Clock::now(), {}, wait);
    const timespec timeout{0, static_cast<long>(wait.count())};
    ::ppoll(waited, 2, &timeout, nullptr);
    take(near_device_.get(), far_device_.get());
    take(far_device_.get(), near_device_.get());
    for (; !under_way.empty() && under_way.front().due <= Clock::now(); under_way.pop_front()) {
      const Packet& packet = under_way.front();
      // or the packet is lost
      [[maybe_unused]] const auto written =
          ::write(packet.to, packet.bytes.data(), packet.bytes.size());
    }
  }
}

void FarNetwork::cut(bool on) {
  cut_ = on;
  if (carrier_.joinable()) return;
  const std::string lost = std::to_string(on ? 100 : lost_percent_);
  for (const NetworkPlace* place : {&near_, &far_})
    place->within([&] {
      must(run_quietly("tc qdisc change dev wire root netem delay " + std::to_string(delay_ms_) +
                       "ms loss " + lost + "%"),
           "tc");
    });
}

}  // namespace larder::test
