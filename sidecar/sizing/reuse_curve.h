// ReuseCurve: estimates from a sample the share of tokens that a memory of another size would hit.
//
// SHARDS (Waldspurger, Park, Garthwaite, Ahmad: "Efficient MRC Construction with SHARDS", USENIX
// FAST 2015), in its fixed-size form with the adjustment SHARDS_adj. A hash of the key decides
// whether a chunk is in the sample, so every reuse of a sampled chunk is seen. The reuse distance
// of a chunk is the number of bytes of other chunks used since the last use of the chunk: the
// distance within the sample, divided by the sampling ratio. An LRU memory hits the chunk if
// distance and chunk fit. When the sample has more than kMaxTracked chunks, the chunks with the
// highest hashes leave and the ratio falls. SHARDS_adj corrects a sample that is too large or too
// small by chance, among the shortest distances.
//
// Three additions to the paper. Chunks with a distance over kReach times the memory leave the
// sample: every size in question would miss these chunks, and a sample of the distant past would
// crowd out the present. Counts fade, so that the curve shows the recent load. A drop removes the
// dropped chunks from the sample, see dropped().
//
// Memory is bounded by kMaxTracked, about 0.9 MiB at most; a chunk outside of the sample costs a
// few multiplications. Thread-compatible.
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
  // Longest distance that counts, in multiples of the memory.
  static constexpr std::uint32_t kReach = 8;

  // REQUIRES: memory_bytes is not 0.
  explicit ReuseCurve(std::uint64_t memory_bytes);

  // An engine looks up one chunk of a prompt. `bytes`: the size in memory; `tokens`: the tokens of
  // the chunk; `owner`: the group of chunks that one drop removes (a namespace).
  void asked(std::uint64_t key, std::uint64_t bytes, double tokens, std::uint32_t owner = 0) {
    ++chunks_asked_;
    all_tokens_ += tokens;
    const std::uint64_t sampled = scattered(key);
    if (sampled <= threshold_) take(sampled, bytes, tokens, owner);
  }
  // Tokens of a prompt outside of any chunk: no memory finds them.
  void asked_in_vain(double tokens) { vain_tokens_ += tokens; }
  // A chunk takes memory, perhaps without an earlier look-up.
  void stored(std::uint64_t key, std::uint64_t bytes, std::uint32_t owner = 0) {
    const std::uint64_t sampled = scattered(key);
    if (sampled <= threshold_ && !uses_.contains(sampled)) enter(sampled, bytes, owner);
  }
  // A drop (changed weights, `clear`, a namespace dropped by name) removes all chunks of an owner
  // from a memory of any size. A curve that kept the chunks would promise hits that no memory can
  // give. Chunks that a verb evicts by name, or that a bad checksum removes, stay in the sample:
  // such chunks are few, and engines store them again.
  void dropped(std::uint32_t owner);
  // Drops the chunks of all owners.
  void dropped();
  // Multiplies all counts so far by `share` (0 to 1).
  void fade(double share);

  // The hit ratio of a memory of `factor` times the size; 0 without requests.
  // REQUIRES: factor <= kReach.
  double hit_ratio(double factor) const;
  void fill(stats::Estimate& estimate) const;

 private:
  static constexpr int kSteps = 8;  // buckets a doubling, so that 0.5, 1, 2 and 4 are bounds
  // Below the size of the memory; one bucket has all shorter distances.
  static constexpr int kDoublings = 10;
  static constexpr std::size_t kBuckets = kSteps * (kDoublings + 3) + 1;

  struct Use {
    std::uint32_t place, owner;
    std::uint64_t bytes;
  };
  using Uses = std::map<std::uint64_t, Use>;  // by scattered key: the highest leaves first

  static std::uint64_t scattered(std::uint64_t key);
  void take(std::uint64_t sampled, std::uint64_t bytes, double tokens, std::uint32_t owner);
  void enter(std::uint64_t sampled, std::uint64_t bytes, std::uint32_t owner);
  void leave(Uses::iterator use);
  std::size_t bucket_of(double distance_bytes) const;

  const double memory_bytes_;
  std::uint64_t threshold_ = UINT64_MAX;  // the highest scattered key in the sample
  double scale_ = 1;                      // 1 / sampling ratio
  Uses uses_;
  UseOrder order_{kMaxTracked + 1};
  std::array<double, kBuckets> tokens_{};  // by reuse distance, scaled
  double all_tokens_ = 0,
         sampled_tokens_ = 0;  // tokens of all chunks; tokens of sampled chunks, scaled
  double vain_tokens_ = 0;
  std::uint64_t chunks_asked_ = 0, chunks_sampled_ = 0;
  stats::DistanceHistogram distances_;
};

}  // namespace larder::sizing
