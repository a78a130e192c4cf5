// ReuseCurve: what share of the tokens asked for would be found in a memory of another size, estimated from a sample.
//
// SHARDS (Waldspurger, Park, Garthwaite, Ahmad: "Efficient MRC Construction with SHARDS", USENIX FAST 2015), in its fixed-size form
// with the adjustment SHARDS_adj. A chunk is sampled by a hash of its key, always or never, so that the reuses of what is sampled are all
// seen. The reuse distance of a chunk, the bytes of other chunks used since its last use, is that of the sample over the sampling ratio;
// an LRU memory finds it where distance and chunk fit. When there are more than kMaxTracked chunks in the sample, those with the
// highest hashes leave and the ratio falls. What was sampled too often or too seldom by chance is made good among the shortest
// distances (SHARDS_adj).
//
// Two additions to the paper. Chunks whose distance has passed kReach times the memory leave the sample: they would be missed at every
// size that is asked about, and a sample of the distant past would crowd out the present. And what was counted fades, so that the curve
// is that of the load of late.
//
// About 0.9 MiB at most. Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "sidecar/sizing/use_order.h"
#include "sidecar/stats/stats.h"

namespace larder::sizing {

class ReuseCurve {
 public:
  static constexpr std::uint32_t kMaxTracked = 8192;  // chunks in the sample
  static constexpr std::uint32_t kReach = 8;          // times the memory, that distances are told apart to

  // REQUIRES: memory_bytes is not 0.
  explicit ReuseCurve(std::uint64_t memory_bytes);

  // One chunk of a prompt is looked up. `bytes`: that it takes in memory; `tokens`: that it stands for; `owner`: whom it can be
  // dropped with.
  void asked(std::uint64_t key, std::uint64_t bytes, double tokens, std::uint32_t owner = 0) {
    ++chunks_asked_;
    all_tokens_ += tokens;
    const std::uint64_t sampled = scattered(key);
    if (sampled <= threshold_) take(sampled, bytes, tokens, owner);
  }
  // Tokens of a prompt that no chunk stands for: never found.
  void asked_in_vain(double tokens) { vain_tokens_ += tokens; }
  // A chunk that may not have been asked for takes memory.
  void stored(std::uint64_t key, std::uint64_t bytes, std::uint32_t owner = 0) {
    const std::uint64_t sampled = scattered(key);
    if (sampled <= threshold_ && !uses_.contains(sampled)) enter(sampled, bytes, owner);
  }
  // All chunks of an owner are gone, from a memory of any size: what is asked for again is asked for the first time.
  void dropped(std::uint32_t owner);
  // ... of all owners.
  void dropped();
  // What was counted so far counts so much less from here on (0 to 1).
  void fade(double share);

  // 0 where nothing was asked. REQUIRES: factor, times the memory, is at most kReach.
  double hit_ratio(double factor) const;
  void fill(stats::Estimate& estimate) const;

 private:
  static constexpr int kSteps = 8;       // buckets a doubling, so that 0.5, 1, 2 and 4 are bounds
  static constexpr int kDoublings = 10;  // below the memory's size; shorter distances are one bucket
  static constexpr std::size_t kBuckets = kSteps * (kDoublings + 3) + 1;

  struct Use {
    std::uint32_t place, owner;
    std::uint64_t bytes;
  };
  using Uses = std::map<std::uint64_t, Use>;  // by scattered key: the highest leave first

  static std::uint64_t scattered(std::uint64_t key);
  void take(std::uint64_t sampled, std::uint64_t bytes, double tokens, std::uint32_t owner);
  void enter(std::uint64_t sampled, std::uint64_t bytes, std::uint32_t owner);
  void leave(Uses::iterator use);
  std::size_t bucket_of(double distance_bytes) const;

  const double memory_bytes_;
  std::uint64_t threshold_ = UINT64_MAX;  // sampled is what is not above it
  double scale_ = 1;                      // of the sample to all
  Uses uses_;
  UseOrder order_{kMaxTracked + 1};
  std::array<double, kBuckets> tokens_{};       // by reuse distance, scaled
  double all_tokens_ = 0, sampled_tokens_ = 0;  // that chunks stand for; of those, as scaled up
  double vain_tokens_ = 0;
  std::uint64_t chunks_asked_ = 0, chunks_sampled_ = 0;
  stats::DistanceHistogram distances_;
};

}  // namespace larder::sizing
