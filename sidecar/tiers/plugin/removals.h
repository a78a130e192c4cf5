// Removals: objects to remove without a caller that waits: evicted chunks, and objects with other
// bytes than stored. Kept until the plug-in has removed each one. Owned by the thread of the tier.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "sidecar/tiers/plugin/calls.h"

namespace larder::plugin {

class Removals {
 public:
  static constexpr std::size_t kMost = 16'384;

  // Beyond kMost a removal is lost: a bad object is found bad once more.
  void add(const tiers::ChunkKey& key, std::uint64_t serial);
  bool contains(const tiers::ChunkKey& key) const { return by_key_.contains(key); }
  // Begins the removals that may begin. REQUIRES: a plug-in is ready.
  void pump(OpenCalls& calls, std::uint64_t now_ns);
  // The answer to a REMOVE without an owner.
  void answered(const tiers::ChunkKey& key, Outcome outcome, std::uint64_t now_ns);
  // All sent removals are sent again.
  void life_ended();

  // Whether a removal from before this serial is left.
  bool any_before(std::uint64_t serial) const {
    return !waiting_.empty() && waiting_.begin()->first < serial;
  }
  std::size_t size() const { return waiting_.size(); }
  // The next attempt after a failure; UINT64_MAX: none waits for a time.
  std::uint64_t next_ns(std::uint64_t now_ns) const;

 private:
  struct Removal {
    tiers::ChunkKey key;
    bool sent = false;
  };
  std::map<std::uint64_t, Removal> waiting_;  // by serial
  std::unordered_map<tiers::ChunkKey, std::uint64_t, tiers::ChunkKeyHash> by_key_;
  std::uint64_t next_ns_ = 0;
};

}  // namespace larder::plugin
