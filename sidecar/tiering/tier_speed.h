// TierSpeed: measures the read speed of a tier from all reads of larderd, and decides whether
// engines may rely on the tier.
//
// Reads run in parallel, so the unit of measurement is a busy stretch, from the first read that
// begins to the last that ends. The time to the first bytes gives the latency, the rest of the
// bytes gives the rate. A stretch of few bytes only scales both figures. `serving` ends when a
// fetch misses its deadline in a stretch much slower than expected, or when a stretch is long
// enough to be a stall. `serving` begins again after a probe at the former speed, or after
// kProbesToLearn slow probes in a row, which give the new speed.
//
// A tier of many devices (peers) leaves out a device that stands still by itself: only faults in
// kProbesToLearn stretches in a row are faults of such a tier. A good stretch between ends the row,
// and so does a read in time that begins after a fault, in the same stretch. Stalls in a row whose
// reads all end well do not end `serving`: they give the new speed.
// Pure: the caller passes in times. Thread-compatible.
#pragma once

#include <cstdint>

#include "shim/protocol/residency_layout.h"

namespace larder::tiering {

class TierSpeed {
 public:
  // After a miss; the wait doubles for each further probe.
  static constexpr std::uint64_t kFirstProbeMs = 1000;
  static constexpr std::uint64_t kLastProbeMs = 30'000;
  static constexpr std::uint32_t kFirstProbes = 3;  // at the start, one after the other
  static constexpr std::uint32_t kProbesToLearn = 3;

  // `many`: the tier has many devices.
  explicit TierSpeed(bool many = false) : many_(many) {}

  // A read was passed to the tier, or has ended, which began at begun_ns. REQUIRES: times never
  // decrease.
  void began(std::uint64_t now_ns, std::uint64_t bytes);
  void ended(std::uint64_t now_ns, std::uint64_t bytes, bool ok, std::uint64_t begun_ns);
  // The deadline of a fetch passed while the fetch waits for reads.
  void missed_deadline(std::uint64_t now_ns);

  // Whether a probe read is due now. The probe counts as begun.
  bool wants_probe(std::uint64_t now_ms);
  void probe_ended(std::uint64_t now_ms, std::uint64_t bytes, std::uint64_t elapsed_ns, bool ok);

  // `takes_reads`: the state of the tier itself.
  protocol::ResidencySpeed view(bool takes_reads) const;

 private:
  struct Figures {
    double latency_ns = 1e6, bytes_per_s = 500e6;  // until the first measurement
    double expected_ns(double bytes) const { return latency_ns + bytes / bytes_per_s * 1e9; }
    // Not much slower than expected.
    bool in_time(std::uint64_t elapsed_ns, std::uint64_t bytes) const;
  };
  struct Stretch {
    std::uint64_t begin_ns = 0, first_ns = 0;
    std::uint64_t first_bytes = 0, bytes = 0, asked_bytes = 0;
    bool failed = false;
  };

  void close(std::uint64_t now_ns);
  void learn(double ratio);
  bool of_one_device(std::uint64_t now_ns);
  void stop_serving(std::uint64_t now_ms);

  const bool many_;
  std::uint32_t faults_ = 0;    // stretches with a fault since the last good stretch
  std::uint64_t fault_ns_ = 0;  // the begin of the last such stretch
  std::uint64_t noted_ns_ = 0;  // the time of its last fault
  Figures figures_;
  Figures before_;  // before the miss
  Stretch stretch_;
  std::uint32_t reading_ = 0;
  std::uint64_t reading_bytes_ = 0;
  std::uint32_t measured_ = 0;  // stretches; the first ones replace the figures
  bool serving_ = true;
  bool probing_ = false;
  std::uint32_t probes_left_ = kFirstProbes;
  std::uint32_t slow_probes_ = 0;
  double slowest_ = 0;  // the slowest of these, relative to `before_`
  std::uint64_t probe_ms_ = 0, probe_wait_ms_ = 0;
  double best_bytes_per_s_ = 0;
};

}  // namespace larder::tiering
