// Layouts: the sizes of the chunks of each namespace, shard and group, as puts and the caller of a
// probe told them. The plug-in answers EXIST with yes or no, and the sizes come from here.
//
// Thread-safe: one mutex, held for one map operation.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "sidecar/tiers/known_chunks.h"

namespace larder::plugin {

class Layouts {
 public:
  static constexpr std::size_t kMost = 16'384;

  void insert(tiers::ChunkKey key, std::uint64_t payload_bytes, std::uint64_t piece_bytes) {
    key.hash = {};
    const tiers::ChunkFacts facts{0, payload_bytes, piece_bytes, 0};
    if (!tiers::plausible(facts)) return;
    const std::lock_guard lock(mutex_);
    // The caller tells a layout before each probe, so a forgotten one costs one miss at most.
    if (facts_.size() >= kMost && !facts_.contains(key)) facts_.clear();
    facts_[key] = facts;
  }
  // With generation 0 and root 0.
  std::optional<tiers::ChunkFacts> find(tiers::ChunkKey key) const {
    key.hash = {};
    const std::lock_guard lock(mutex_);
    const auto found = facts_.find(key);
    return found == facts_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<tiers::ChunkKey, tiers::ChunkFacts, tiers::ChunkKeyHash> facts_;
};

}  // namespace larder::plugin
