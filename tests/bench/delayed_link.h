// DelayedLink: a network with a delay between two namespaces of this machine, like netem on kernels
// that have it. A thread carries packets of at most 1500 bytes between two TUN devices and delays
// each one. TCP at both ends is the kernel's own.
//
// The constructor moves its thread into the near namespace. Needs root and /dev/net/tun.
// Thread-compatible.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "shim/base/fd.h"

namespace larder::bench {

class DelayedLink {
 public:
  // in the address block reserved for benchmarks
  static constexpr const char* kFarAddress = "198.18.0.2";

  // `congestion`: TCP's congestion control at both ends; empty: the machine's own. Throws
  // std::runtime_error if the machine refuses.
  explicit DelayedLink(const std::string& congestion);
  DelayedLink(const DelayedLink&) = delete;
  DelayedLink& operator=(const DelayedLink&) = delete;

  // Sets the delay of later packets, each way.
  void delay_us(std::uint64_t one_way) { delay_ns_ = 1000 * one_way; }
  std::string congestion() const;
  // `work` makes sockets and processes in the far namespace.
  void at_far_end(const std::function<void()>& work) const;

 private:
  struct Packet {
    std::uint64_t due_ns;
    std::vector<char> bytes;
  };
  struct Way {
    int from, to;
    std::deque<Packet> held;
  };
  void carry(const std::stop_token& stop);

  Fd near_space_, far_space_, near_, far_;
  std::atomic<std::uint64_t> delay_ns_{0};
  std::jthread carrier_;  // ends first
};

}  // namespace larder::bench
