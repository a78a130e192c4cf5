// DelayedLink: a network between two namespaces of this machine that takes its time: what netem does where the kernel has it. A thread
// carries packets of at most 1500 bytes between two TUN devices, and holds each back; TCP at both ends is the kernel's own.
//
// It takes the thread that makes it into the near namespace. Needs root and /dev/net/tun. Thread-compatible.
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
  static constexpr const char* kFarAddress = "198.18.0.2";  // of the block that is set aside for benchmarks

  // `congestion`: TCP's congestion control at both ends; empty: the machine's own. Throws std::runtime_error where this machine does not
  // let it.
  explicit DelayedLink(const std::string& congestion);
  DelayedLink(const DelayedLink&) = delete;
  DelayedLink& operator=(const DelayedLink&) = delete;

  // Each way, of packets from now on.
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
