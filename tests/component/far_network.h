// FarNetwork: two network namespaces of this machine, and between the two a wire that delays every
// packet and loses some.
//
// The wire is a pair of veth with tc's netem if the kernel has netem. Otherwise a thread of this
// process carries the packets from one TUN device to another, with the delay and the loss. In both
// cases both ends speak the kernel's TCP over the wire. Needs root. Thread-compatible.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "shim/base/fd.h"
#include "tests/component/network_place.h"

namespace larder::test {

class FarNetwork {
 public:
  static constexpr const char* kNear = "10.77.0.1";  // seen from either end
  static constexpr const char* kFar = "10.77.0.2";

  // The delay of each packet, one way; the number of lost packets in a hundred. Throws if this
  // machine does not allow the network.
  FarNetwork(unsigned delay_ms, unsigned lost_percent);
  ~FarNetwork();
  FarNetwork(const FarNetwork&) = delete;
  FarNetwork& operator=(const FarNetwork&) = delete;

  const std::string& kind() const { return kind_; }
  // The sockets, threads and processes that these make stay at that end.
  void near(const std::function<void()>& work) const { near_.within(work); }
  void far(const std::function<void()>& work) const { far_.within(work); }
  // Cut, every packet is lost.
  void cut(bool on);

 private:
  bool join_by_netem();
  void join_by_thread();
  void carry() const;

  const unsigned delay_ms_, lost_percent_;
  std::string kind_;
  const NetworkPlace near_, far_;
  Fd near_device_, far_device_;  // TUN
  std::atomic<bool> cut_ = false, ended_ = false;
  std::thread carrier_;
};

}  // namespace larder::test
