// Fence: limits the time in which this process may write. LeaderLease (lease.h) implements it.
#pragma once

#include <cstdint>

namespace larder::k8s {

class Fence {
 public:
  virtual ~Fence() = default;
  // Milliseconds in which a write must end; 0: no write may begin, and a running write is cut.
  // Thread-safe and quick: callers ask before each try and before each piece of a request.
  virtual std::uint64_t left_ms() const = 0;
};

}  // namespace larder::k8s
