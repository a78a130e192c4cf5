#include "sidecar/sizing/reuse_curve.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace larder::sizing {

ReuseCurve::ReuseCurve(std::uint64_t memory_bytes)
    : memory_bytes_(static_cast<double>(memory_bytes)) {}

// The finaliser of MurmurHash3: one to one, and independent of the hash that made the key.
std::uint64_t ReuseCurve::scattered(std::uint64_t key) {
  key = (key ^ (key >> 33)) * 0xff51afd7ed558ccdULL;
  key = (key ^ (key >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  key ^= key >> 33;
  return key == UseOrder::kFree ? 1 : key;
}

// Bucket b > 0 holds distances up to memory * 2^(b / kSteps - kDoublings).
std::size_t ReuseCurve::bucket_of(double distance_bytes) const {
  const double step =
      std::ceil(std::log2(distance_bytes / memory_bytes_) * kSteps - 1e-9) + kSteps * kDoublings;
  return static_cast<std::size_t>(std::clamp(step, 0.0, static_cast<double>(kBuckets)));
}

void ReuseCurve::take(std::uint64_t sampled, std::uint64_t bytes, double tokens,
                      std::uint32_t owner) {
  ++chunks_sampled_;
  sampled_tokens_ += tokens * scale_;
  const auto times = static_cast<std::uint64_t>(std::llround(scale_));
  const auto known = uses_.find(sampled);
  // No use in the sample: the first one, or one after a drop or beyond kReach. No memory in
  // question would hit.
  if (known == uses_.end()) {
    distances_.record(UINT64_MAX, times, 0);
    return enter(sampled, bytes, owner);
  }
  // The distance counts sampled bytes, scaled up. A chunk itself must fit too, so its own bytes are
  // added for the bucket.
  const double others = static_cast<double>(order_.bytes_after(known->second.place)) * scale_;
  const auto distance = static_cast<std::uint64_t>(others);
  distances_.record(distance, times, distance * times);
  if (const std::size_t bucket = bucket_of(others + static_cast<double>(bytes)); bucket < kBuckets)
    tokens_[bucket] += tokens * scale_;
  leave(known);
  enter(sampled, bytes, owner);
}

void ReuseCurve::enter(std::uint64_t sampled, std::uint64_t bytes, std::uint32_t owner) {
  const std::uint32_t place = order_.append(
      sampled, bytes,
      [this](std::uint64_t moved, std::uint32_t to) { uses_.find(moved)->second.place = to; });
  uses_.emplace(sampled, Use{place, owner, bytes});
  // The sample has a fixed size (SHARDS, Waldspurger et al., FAST 2015): the highest key leaves,
  // and the threshold falls, so every key below it stays in the sample.
  if (uses_.size() > kMaxTracked) {
    threshold_ = uses_.rbegin()->first - 1;
    leave(std::prev(uses_.end()));
    scale_ = std::exp2(64) / static_cast<double>(threshold_);
  }
  while (uses_.size() > 1 &&
         // Uses beyond the largest memory of the curve can hit in none of its sizes.
         static_cast<double>(order_.total_bytes()) * scale_ > kReach * memory_bytes_)
    leave(uses_.find(order_.oldest()));
}

void ReuseCurve::leave(Uses::iterator use) {
  order_.erase(use->second.place, use->second.bytes);
  uses_.erase(use);
}

void ReuseCurve::dropped(std::uint32_t owner) {
  for (auto use = uses_.begin(); use != uses_.end();) {
    const auto here = use++;
    if (here->second.owner == owner) leave(here);
  }
}

void ReuseCurve::dropped() {
  while (!uses_.empty()) leave(uses_.begin());
}

void ReuseCurve::fade(double share) {
  for (double& tokens : tokens_) tokens *= share;
  all_tokens_ *= share;
  sampled_tokens_ *= share;
  vain_tokens_ *= share;
}

double ReuseCurve::hit_ratio(double factor) const {
  if (all_tokens_ <= 0) return 0;
  // The difference of asked and sampled tokens goes to the shortest distance: a few hot chunks in
  // or out of the sample would otherwise shift the whole curve.
  double found = all_tokens_ - sampled_tokens_;  // SHARDS_adj
  const std::size_t last = bucket_of(factor * memory_bytes_);
  for (std::size_t bucket = 0; bucket <= std::min(last, kBuckets - 1); ++bucket)
    found += tokens_[bucket];
  return std::clamp(found, 0.0, all_tokens_) / (all_tokens_ + vain_tokens_);
}

void ReuseCurve::fill(stats::Estimate& estimate) const {
  for (stats::EstimatedHit& hit : estimate.hits) hit.ratio = hit_ratio(hit.factor);
  estimate.chunks_asked = chunks_asked_;
  estimate.chunks_sampled = chunks_sampled_;
  estimate.chunks_tracked = uses_.size();
  estimate.sampling_ratio = 1 / scale_;
  estimate.reuse_distance = distances_;
}

}  // namespace larder::sizing
