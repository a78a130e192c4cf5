// ReceiveWindow: how many bytes of payloads are asked for at once on a connection: enough that the link is never idle, and no more; with
// a least of nothing, how many of bodies are sent before the first is answered. A server builds each reply in memory before it sends it. Of a few at a time that memory stays in its processor's cache; of tens of MiB it is
// new with each, which has taken half as much again of the server's time.
//
// Twice what comes in a round trip: the shortest time that a small command took which was alone on the connection. What comes is
// measured while the window is what holds it back, so that it doubles as long as it is too small. Pure; thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>

namespace larder::remote {

class ReceiveWindow {
 public:
  // Two parts of a chunk at least, one is made while one is sent, and the short one that ends a chunk besides.
  static constexpr std::uint64_t kLeast = 5 << 20, kMost = 32 << 20;
  static constexpr std::uint64_t kAssumedRate = 2'000'000'000;  // bytes a second, until it was measured
  static constexpr std::uint64_t kRoundNs = 10'000'000;         // that a measurement takes, at least

  explicit ReceiveWindow(std::uint64_t least = kLeast) : least_(least) {}

  std::uint64_t bytes() const { return bytes_; }
  bool lets(std::uint64_t asked, std::uint64_t more) const { return asked == 0 || asked + more <= bytes_; }
  // Something was not asked for since it does not let it.
  void held_back() { held_back_ = true; }

  // A command that was alone and small was answered after so long.
  void round_trip(std::uint64_t ns) {
    if (ns >= shortest_ns_) return;
    shortest_ns_ = ns;
    fit();
  }
  // A payload has come. `last`: nothing else was asked for.
  void came(std::uint64_t bytes, std::uint64_t now_ns, bool last) {
    if (round_ns_ == 0) {
      round_ns_ = now_ns;
    } else {
      came_ += bytes;
    }
    const std::uint64_t took = now_ns - round_ns_;
    if (!last && took < std::max(kRoundNs, shortest_ns_ == UINT64_MAX ? 0 : 4 * shortest_ns_)) return;
    if (held_back_ && !last) {                                              // mutation: window-waited
      rate_ = came_ * 1'000'000 / std::max<std::uint64_t>(took / 1000, 1);  // mutation: window-grows
      fit();
    }
    round_ns_ = last ? 0 : now_ns;
    came_ = 0;
    held_back_ = false;
  }

 private:
  void fit() {
    const double in_a_round_trip = static_cast<double>(rate_) * static_cast<double>(shortest_ns_) / 1e9;
    bytes_ = static_cast<std::uint64_t>(std::clamp(2 * in_a_round_trip, static_cast<double>(least_), static_cast<double>(kMost)));
  }

  std::uint64_t least_;
  std::uint64_t bytes_ = kMost;
  std::uint64_t shortest_ns_ = UINT64_MAX, rate_ = kAssumedRate;
  std::uint64_t round_ns_ = 0, came_ = 0;  // since when what comes is counted, and how much did; 0: since the next
  bool held_back_ = false;
};

}  // namespace larder::remote
