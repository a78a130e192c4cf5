// Fence: until when this process may write. LeaderLease (lease.h) is the one that counts.
#pragma once

#include <cstdint>

namespace larder::k8s {

class Fence {
 public:
  virtual ~Fence() = default;
  // Milliseconds for which writes may still be under way; 0: no write may begin, and one that has begun is cut. Thread-safe, quick:
  // asked again right before each piece of a request is sent.
  virtual std::uint64_t left_ms() const = 0;
};

}  // namespace larder::k8s
