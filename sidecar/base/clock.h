// Clock: the one source of time of the sidecar. Monotonic, in milliseconds and nanoseconds since an arbitrary start.
//
// Pure rooms (store) take times as arguments instead; tests own a ManualClock. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace larder::base {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::uint64_t now_ns() const = 0;
  std::uint64_t now_ms() const { return now_ns() / 1'000'000; }
};

class MonotonicClock final : public Clock {
 public:
  std::uint64_t now_ns() const override {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
  }
};

class ManualClock final : public Clock {
 public:
  std::uint64_t now_ns() const override { return now_ns_.load(); }
  void advance_ms(std::uint64_t ms) { now_ns_ += ms * 1'000'000; }

 private:
  std::atomic<std::uint64_t> now_ns_{1'000'000'000};
};

}  // namespace larder::base
