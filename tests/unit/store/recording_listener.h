// RecordingListener: a ChunkListener that remembers its calls.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "sidecar/store/chunk_listener.h"

namespace larder::store::testing_support {

class RecordingListener final : public ChunkListener {
 public:
  void committed(const protocol::EntryView& chunk) override {
    committed_roots.push_back(chunk.root);
  }
  void used(const protocol::EntryView& chunk) override { used_roots.push_back(chunk.root); }
  void came_up(const protocol::EntryView& chunk, std::uint32_t) override {
    came_up_keys.push_back(chunk.key);
  }
  bool wants(const protocol::EntryView& chunk) const override {
    return !not_admitted.contains(chunk.key.hash.lo);
  }
  LowerTierEviction evicted(const protocol::Key& key) override {
    evicted_keys.push_back(key);
    return evictions.contains(key.hash.lo) ? evictions.at(key.hash.lo) : LowerTierEviction::kAbsent;
  }
  void damaged(const protocol::EntryView& chunk) override { damaged_keys.push_back(chunk.key); }
  bool takes_drops() const override { return takes_more_drops; }
  std::shared_ptr<void> dropping(std::optional<std::uint32_t> handle) override {
    drops.push_back(handle);
    const auto token = std::make_shared<int>();
    going_on = token;
    return token;
  }

  std::vector<std::uint64_t> committed_roots, used_roots;
  std::vector<protocol::Key> damaged_keys, came_up_keys, evicted_keys;
  std::set<std::uint64_t> not_admitted;                  // by the hash's first word
  std::map<std::uint64_t, LowerTierEviction> evictions;  // the same
  std::vector<std::optional<std::uint32_t>> drops;
  std::weak_ptr<void> going_on;
  bool takes_more_drops = true;
};

}  // namespace larder::store::testing_support
