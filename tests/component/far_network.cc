#include "tests/component/far_network.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <random>
#include <stdexcept>
#include <vector>

namespace larder::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostUnderWay = 4096;  // packets; like a router, the wire loses the rest

bool run(const std::string& command) {
  return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0;
}

void must(bool happened, const std::string& what) {
  if (!happened) throw std::runtime_error(what);
}

Fd this_place() {
  return Fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
}

Fd new_place() {
  must(::unshare(CLONE_NEWNET) == 0,
       "no network namespace can be made: " + std::string(std::strerror(errno)));
  run("ip link set lo up");
  // The oldest rule of TCP, which is everywhere, and slow where packets are lost.
  run("echo reno > /proc/sys/net/ipv4/tcp_congestion_control");
  return this_place();
}

// Of the namespace in which this thread is.
Fd open_device(const char* address) {
  Fd device(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  ifreq wanted{};
  wanted.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strncpy(wanted.ifr_name, "wire", IFNAMSIZ - 1);
  must(device.valid() && ::ioctl(device.get(), TUNSETIFF, &wanted) == 0,
       "neither netem in this kernel nor a TUN device: " + std::string(std::strerror(errno)));
  must(run("ip addr add " + std::string(address) + "/24 dev wire && ip link set wire up"),
       "the TUN device cannot be set up");
  return device;
}

}  // namespace

FarNetwork::FarNetwork(unsigned delay_ms, unsigned lost_percent)
    : delay_ms_(delay_ms), lost_percent_(lost_percent) {
  home_ = this_place();
  // Not this thread: this thread stays in its namespace in any case.
  std::exception_ptr failure;
  std::thread([&] {
    try {
      near_ = new_place();
      far_ = new_place();
      if (!join_by_netem()) join_by_thread();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

FarNetwork::~FarNetwork() {
  ended_ = true;
  if (carrier_.joinable()) carrier_.join();
}

void FarNetwork::within(const Fd& place, const std::function<void()>& work) const {
  must(::setns(place.get(), CLONE_NEWNET) == 0, "setns");
  struct Return {
    const Fd& home;
    ~Return() { static_cast<void>(::setns(home.get(), CLONE_NEWNET)); }
  } const back{home_};
  work();
}

// Names of namespaces may be paths.
bool FarNetwork::join_by_netem() {
  const std::string other =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(far_.get());
  const std::string delays = "tc qdisc add dev wire root netem delay " + std::to_string(delay_ms_) +
                             "ms loss " + std::to_string(lost_percent_) + "%";
  bool joined = false;
  const auto join = [&](const char* address) {
    joined = joined && run("ip addr add " + std::string(address) +
                           "/24 dev wire && ip link set wire up && " + delays);
  };
  within(near_, [&] {
    joined =
        run("ip link add wire type veth peer name wire-far && ip link set wire-far netns " + other);
    join(kNear);
  });
  within(far_, [&] {
    joined = joined && run("ip link set wire-far name wire");
    join(kFar);
  });
  if (joined) kind_ = "tc netem";
  if (!joined) within(near_, [] { run("ip link del wire"); });  // and the peer
  return joined;
}

void FarNetwork::join_by_thread() {
  within(near_, [&] { near_device_ = open_device(kNear); });
  within(far_, [&] { far_device_ = open_device(kFar); });
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
  for (const Fd* place : {&near_, &far_})
    within(*place, [&] {
      must(run("tc qdisc change dev wire root netem delay " + std::to_string(delay_ms_) +
               "ms loss " + lost + "%"),
           "tc");
    });
}

}  // namespace larder::test
