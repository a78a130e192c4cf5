// FlightWindow: how many bytes may be at the device at once, one way, reads or writes; tuned to the device by how long requests take.
//
// The control law is PARDA's (Gulati, Ahmad, Waldspurger: "PARDA: Proportional Allocation of Resources for Distributed Storage Access",
// FAST 2009, equation 1), which took it from FAST TCP:
//
//   window := (1 - g) * window + g * (target / latency * window + b)
//
// It rests where what is in flight takes the target time and b a little longer: at the device's bandwidth times the target. A fast
// device has the most, a slow one what it can move in that time, so that nobody waits long behind others; one largest chunk is always
// let through by who asks. `latency` is the mean of the requests that began since the window last changed, so that each change is seen
// before the next; a window that nobody had to wait for does not grow. Pure; thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>

namespace larder::disk {

class FlightWindow {
 public:
  static constexpr std::uint64_t kTargetNs = 25'000'000;  // PARDA's own threshold is 25 to 30 ms
  static constexpr std::uint64_t kRoundNs = 50'000'000;   // between changes, at least
  static constexpr std::uint64_t kBeyondBytes = 256 << 10;

  // Begins with the most.
  explicit FlightWindow(std::uint64_t most_bytes) : most_(most_bytes), bytes_(most_bytes) {}

  std::uint64_t bytes() const { return bytes_; }
  // Whether so many more may go, beside those in flight, where this way gets one part in `share` of the window: always, if none are.
  bool lets(std::uint64_t in_flight, std::uint64_t more, std::uint64_t share = 1) {
    const bool now = in_flight == 0 || in_flight + more <= bytes_ / share;
    waited_ = waited_ || !now;
    return now;
  }
  // A request has ended well.
  void ended(std::uint64_t began_ns, std::uint64_t now_ns, std::uint64_t bytes) {
    if (round_ns_ == 0) round_ns_ = began_ns;
    if (began_ns < round_ns_) return;  // the window was another one
    largest_ = std::max(largest_, bytes);
    latency_ns_ += now_ns - began_ns;
    ++requests_;
    if (now_ns - round_ns_ >= kRoundNs) change(now_ns);
  }

 private:
  static constexpr double kGain = 0.8;      // g
  static constexpr double kMostGrowth = 2;  // of target / latency: one short round is not trusted with more

  void change(std::uint64_t now_ns) {
    const auto window = static_cast<double>(bytes_);
    const double latency = std::max(1.0, static_cast<double>(latency_ns_) / static_cast<double>(requests_));
    const double ratio = std::min(static_cast<double>(kTargetNs) / latency, kMostGrowth);
    const double next = (1 - kGain) * window + kGain * (ratio * window + static_cast<double>(kBeyondBytes));
    const std::uint64_t bounded = std::clamp(static_cast<std::uint64_t>(next), std::min(largest_, most_), most_);
    if (bounded < bytes_ || waited_) bytes_ = bounded;
    round_ns_ = now_ns;
    latency_ns_ = requests_ = largest_ = 0;
    waited_ = false;
  }

  std::uint64_t most_, bytes_;
  std::uint64_t round_ns_ = 0;  // since when the window is what it is
  // Of the requests that began since then.
  std::uint64_t largest_ = 0, latency_ns_ = 0, requests_ = 0;
  bool waited_ = false;
};

}  // namespace larder::disk
