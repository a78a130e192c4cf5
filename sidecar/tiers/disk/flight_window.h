// FlightWindow: the number of bytes that may be at the device at once in one direction (reads or
// writes), tuned by the latency of requests.
//
// The control law is the law of PARDA (Gulati, Ahmad, Waldspurger: "PARDA: Proportional Allocation
// of Resources for Distributed Storage Access", FAST 2009, equation 1), which is from FAST TCP:
//
//   window := (1 - g) * window + g * (target / latency * window + b)
//
// The window settles where the bytes in flight take a little longer than the target time: at the
// bandwidth of the device times the target. A fast device gets the maximum. A slow device gets the
// bytes that it moves in the target time, so that no request waits long behind others; lets()
// always allows one request. `latency` is the mean of the requests that began since the last change
// of the window, so that each change is measured before the next. A window without waiting requests
// does not grow. Pure; thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>

namespace larder::disk {

class FlightWindow {
 public:
  static constexpr std::uint64_t kTargetNs = 25'000'000;  // the threshold of PARDA is 25 to 30 ms
  static constexpr std::uint64_t kRoundNs = 50'000'000;   // the least time between changes
  static constexpr std::uint64_t kBeyondBytes = 256 << 10;

  // Begins with the maximum.
  explicit FlightWindow(std::uint64_t most_bytes) : most_(most_bytes), bytes_(most_bytes) {}

  std::uint64_t bytes() const { return bytes_; }
  // Whether `more` bytes may go beside the bytes in flight, in one part in `share` of the window.
  // Always true with an idle device.
  bool lets(std::uint64_t in_flight, std::uint64_t more, std::uint64_t share = 1) {
    const bool now = in_flight == 0 || in_flight + more <= bytes_ / share;
    waited_ = waited_ || !now;
    return now;
  }
  // A request succeeded.
  void ended(std::uint64_t began_ns, std::uint64_t now_ns, std::uint64_t bytes) {
    if (round_ns_ == 0) round_ns_ = began_ns;
    if (began_ns < round_ns_) return;  // began under another window
    largest_ = std::max(largest_, bytes);
    latency_ns_ += now_ns - began_ns;
    ++requests_;
    if (now_ns - round_ns_ >= kRoundNs) change(now_ns);
  }

 private:
  static constexpr double kGain = 0.8;  // g
  // Of target / latency: a single short round gets no more.
  static constexpr double kMostGrowth = 2;

  void change(std::uint64_t now_ns) {
    const auto window = static_cast<double>(bytes_);
    const double latency =
        std::max(1.0, static_cast<double>(latency_ns_) / static_cast<double>(requests_));
    const double ratio = std::min(static_cast<double>(kTargetNs) / latency, kMostGrowth);
    const double next =
        (1 - kGain) * window + kGain * (ratio * window + static_cast<double>(kBeyondBytes));
    const std::uint64_t bounded =
        std::clamp(static_cast<std::uint64_t>(next), std::min(largest_, most_), most_);
    if (bounded < bytes_ || waited_) bytes_ = bounded;
    round_ns_ = now_ns;
    latency_ns_ = requests_ = largest_ = 0;
    waited_ = false;
  }

  std::uint64_t most_, bytes_;
  std::uint64_t round_ns_ = 0;  // the time of the last change
  // Of the requests that began since the last change.
  std::uint64_t largest_ = 0, latency_ns_ = 0, requests_ = 0;
  bool waited_ = false;
};

}  // namespace larder::disk
