// SwitchedFence: a fence that outlives the lease behind it. The fence is up while a lease is set
// and held. Every write of the leader goes through this fence. Thread-safe.
#pragma once

#include <mutex>

#include "operator/k8s/fence.h"

namespace larder::app {

class SwitchedFence final : public k8s::Fence {
 public:
  // Null: the fence stays down. After the return, no thread uses the earlier lease.
  void follow(const k8s::Fence* fence) {
    const std::lock_guard lock(mutex_);
    fence_ = fence;
  }
  std::uint64_t left_ms() const override {
    const std::lock_guard lock(mutex_);
    return fence_ == nullptr ? 0 : fence_->left_ms();
  }

 private:
  mutable std::mutex mutex_;
  const k8s::Fence* fence_ = nullptr;
};

}  // namespace larder::app
