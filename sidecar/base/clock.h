// Clock: the one source of time of the sidecar. Monotonic, in milliseconds and nanoseconds since an
// arbitrary start.
//
// Pure rooms (store) take times as arguments instead; tests own a ManualClock. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

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
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
  }
};

// CLOCK_BOOTTIME counts the sleep of the machine, and CLOCK_MONOTONIC does not. For leases: the
// other replicas count time while this machine sleeps.
class BoottimeClock final : public Clock {
 public:
  std::uint64_t now_ns() const override {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
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
