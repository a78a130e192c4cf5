// GatedClock: stops the sidecar's loop at each question for the time, while `gate` is locked.
// Thread-safe.
#pragma once

#include <mutex>

#include "sidecar/base/clock.h"

namespace larder::client::testing_support {

class GatedClock final : public base::Clock {
 public:
  std::uint64_t now_ns() const override {
    const std::lock_guard closed(gate);
    return clock_.now_ns();
  }
  mutable std::mutex gate;

 private:
  base::MonotonicClock clock_;
};

}  // namespace larder::client::testing_support
