// TierSpeed: how fast a tier reads, from all reads that larderd makes, and whether engines may rely on it.
//
// Reads run side by side, so it is a busy stretch of them that is measured, from the first that begins to the last that ends: what comes
// before the first bytes is the latency, how fast the rest comes the rate. A stretch of few bytes only tells that both are so many
// times better or worse than was thought. A fetch that misses its deadline in a stretch much slower than expected ends `serving`, as does
// a stretch that is a stall by its length, until a probe was as fast as before, or three in a row have shown what to expect now. Pure: times come from outside. Thread-compatible.
#pragma once

#include <cstdint>

#include "shim/protocol/residency_layout.h"

namespace larder::tiering {

class TierSpeed {
 public:
  static constexpr std::uint64_t kFirstProbeMs = 1000;  // after a miss; the next ones wait twice as long each
  static constexpr std::uint64_t kLastProbeMs = 30'000;
  static constexpr std::uint32_t kFirstProbes = 3;  // at the start, one behind the other
  static constexpr std::uint32_t kProbesToLearn = 3;

  // A read was given to the tier, or has ended. REQUIRES: times that do not go back.
  void began(std::uint64_t now_ns, std::uint64_t bytes);
  void ended(std::uint64_t now_ns, std::uint64_t bytes, bool ok);
  // A fetch waits for reads, and its deadline is over.
  void missed_deadline(std::uint64_t now_ns);

  // Whether a read for its own sake is due now. It counts as begun.
  bool wants_probe(std::uint64_t now_ms);
  void probe_ended(std::uint64_t now_ms, std::uint64_t bytes, std::uint64_t elapsed_ns, bool ok);

  // `takes_reads`: what the tier itself says.
  protocol::ResidencySpeed view(bool takes_reads) const;

 private:
  struct Figures {
    double latency_ns = 1e6, bytes_per_s = 500e6;  // until something was measured
    double expected_ns(double bytes) const { return latency_ns + bytes / bytes_per_s * 1e9; }
  };
  struct Stretch {
    std::uint64_t begin_ns = 0, first_ns = 0;
    std::uint64_t first_bytes = 0, bytes = 0, asked_bytes = 0;
    bool failed = false;
  };

  void close(std::uint64_t now_ns);
  void learn(double ratio);
  void stop_serving(std::uint64_t now_ms);

  Figures figures_;
  Figures before_;  // the miss
  Stretch stretch_;
  std::uint32_t reading_ = 0;
  std::uint64_t reading_bytes_ = 0;
  std::uint32_t measured_ = 0;  // stretches: the first ones count whole
  bool serving_ = true;
  bool probing_ = false;
  std::uint32_t probes_left_ = kFirstProbes;
  std::uint32_t slow_probes_ = 0;
  double slowest_ = 0;  // of these, against `before_`
  std::uint64_t probe_ms_ = 0, probe_wait_ms_ = 0;
  double best_bytes_per_s_ = 0;
};

}  // namespace larder::tiering
