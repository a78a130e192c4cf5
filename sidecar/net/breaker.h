// Breaker: the time of the next attempt after a failure of a server. Pure; thread-compatible.
//
// A closed breaker allows connects at once. A failure opens the breaker: the next attempt waits,
// and the wait doubles, with jitter, so that many larderd do not return at the same moment. Then
// one attempt passes (half open), and only its success closes the breaker. The first failure after
// a while of good service is retried at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

namespace larder::net {

class Breaker {
 public:
  Breaker(std::uint64_t least_ms, std::uint64_t most_ms, std::uint64_t seed)
      : least_ns_(least_ms * 1'000'000),
        most_ns_(most_ms * 1'000'000),
        random_(static_cast<std::minstd_rand::result_type>(seed | 1)) {}

  bool may_try(std::uint64_t now_ns) const { return !trying_ && now_ns >= next_ns_; }
  std::uint64_t next_ns() const { return next_ns_; }
  void tried() { trying_ = true; }
  // The attempt failed, and another one follows as a part of it.
  void skipped() { trying_ = false; }
  void succeeded(std::uint64_t now_ns) {
    trying_ = false;
    next_ns_ = now_ns;
    good_since_ns_ = now_ns;
    bad_ = false;
  }
  void failed(std::uint64_t now_ns) {
    trying_ = false;
    if (!bad_ && now_ns - good_since_ns_ >= kGoodNs) wait_ns_ = 0;
    bad_ = true;
    // Between three and five quarters of the wait.
    next_ns_ =
        now_ns + wait_ns_ - wait_ns_ / 4 + (wait_ns_ == 0 ? 0 : random_() % (wait_ns_ / 2 + 1));
    wait_ns_ = std::clamp(2 * wait_ns_, least_ns_, most_ns_);
  }

 private:
  static constexpr std::uint64_t kGoodNs = 1'000'000'000;
  std::uint64_t least_ns_, most_ns_;
  std::minstd_rand random_;
  std::uint64_t wait_ns_ = 0, next_ns_ = 0, good_since_ns_ = 0;
  bool trying_ = false, bad_ = false;
};

}  // namespace larder::net
