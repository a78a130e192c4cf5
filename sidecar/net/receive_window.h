// ReceiveWindow: the allowed number of requested payload bytes on a connection: just enough to keep
// the link busy. With a least of 0 also the allowed number of unanswered body bytes. A server
// builds each reply in memory before sending the reply. With a few replies at a time that memory
// stays in the cache of the processor. With tens of MiB each reply takes new memory, which cost the
// server half as much time again.
//
// The window is twice the bytes received in a round trip. A round trip is the shortest time of a
// small command alone on the connection. The rate is measured while the window is the limit, so a
// window that is too small doubles each time. Pure; thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>

namespace larder::net {

class ReceiveWindow {
 public:
  // At least two parts of a chunk (the server makes one and sends the other) and the short last
  // part of a chunk.
  static constexpr std::uint64_t kLeast = 5 << 20, kMost = 32 << 20;
  // Bytes a second, before the first measurement.
  static constexpr std::uint64_t kAssumedRate = 2'000'000'000;
  static constexpr std::uint64_t kRoundNs = 10'000'000;  // shortest time of a measurement

  explicit ReceiveWindow(std::uint64_t least = kLeast) : least_(least) {}

  std::uint64_t bytes() const { return bytes_; }
  bool lets(std::uint64_t asked, std::uint64_t more) const {
    return asked == 0 || asked + more <= bytes_;
  }
  // The window delayed a command.
  void held_back() { held_back_ = true; }

  // A small command, alone on the connection, was answered after `ns`.
  void round_trip(std::uint64_t ns) {
    if (ns >= shortest_ns_) return;
    shortest_ns_ = ns;
    fit();
  }
  // A payload was received, or a body answered. `last`: no other is open.
  void came(std::uint64_t bytes, std::uint64_t now_ns, bool last) {
    if (round_ns_ == 0) {
      round_ns_ = now_ns;
    } else {
      came_ += bytes;
    }
    const std::uint64_t took = now_ns - round_ns_;
    if (!last && took < std::max(kRoundNs, shortest_ns_ == UINT64_MAX ? 0 : 4 * shortest_ns_))
      return;
    if (held_back_ && !last) {  // mutation: window-waited
      rate_ =
          came_ * 1'000'000 / std::max<std::uint64_t>(took / 1000, 1);  // mutation: window-grows
      fit();
    }
    round_ns_ = last ? 0 : now_ns;
    came_ = 0;
    held_back_ = false;
  }

 private:
  void fit() {
    const double in_a_round_trip =
        static_cast<double>(rate_) * static_cast<double>(shortest_ns_) / 1e9;
    bytes_ = static_cast<std::uint64_t>(
        std::clamp(2 * in_a_round_trip, static_cast<double>(least_), static_cast<double>(kMost)));
  }

  std::uint64_t least_;
  std::uint64_t bytes_ = kMost;
  std::uint64_t shortest_ns_ = UINT64_MAX, rate_ = kAssumedRate;
  std::uint64_t round_ns_ = 0,
                came_ = 0;  // start of the measurement (0: at the next payload) and bytes since
  bool held_back_ = false;
};

}  // namespace larder::net
