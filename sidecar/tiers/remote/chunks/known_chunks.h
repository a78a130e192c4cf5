// KnownChunks: which chunks the backend is known to have, from what was put, found and looked for. A memory of others' disk: what
// it says may have gone since.
//
// Thread-safe: one mutex, held for a few map operations. The tier's thread writes, any reads and hides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sidecar/tiers/remote/format.h"

namespace larder::remote {

class KnownChunks {
 public:
  // Beyond `most` those that were told of longest ago are forgotten. `residents`, or nullptr, outlives it.
  KnownChunks(std::size_t most, tiers::Residents* residents) : most_(most), residents_(residents) {}

  // Nothing of a hidden namespace is found, nor what is older than its time.
  std::optional<Record> find(const tiers::ChunkKey& key, std::uint64_t now_ns) const;
  // Replaces what was known of that key. Not found from `until_ns` on.
  void insert(const Record& record, std::uint64_t until_ns = UINT64_MAX);
  // Returns whether it was there; one of `generation` only, where that is told.
  bool erase(const tiers::ChunkKey& key, std::optional<std::uint64_t> generation = {});
  std::uint64_t erase_namespace(const protocol::NamespaceId& id);
  std::uint64_t erase_all();

  // Between the moment a drop was asked for and the one at which the server has done it. Calls nest.
  void hide(const protocol::NamespaceId& id);
  void show(const protocol::NamespaceId& id);
  void hide_all();
  void show_all();
  bool hidden(const protocol::NamespaceId& id) const;

  std::uint64_t chunks() const;
  std::uint64_t slot_bytes() const;

 private:
  struct Node {
    Record record;
    std::uint64_t until_ns = UINT64_MAX;
  };
  using Nodes = std::list<Node>;
  struct Hash {
    std::size_t operator()(const tiers::ChunkKey& key) const;
  };
  bool hidden_locked(const protocol::NamespaceId& id) const;
  void erase_locked(Nodes::iterator node, Nodes& gone);

  const std::size_t most_;
  tiers::Residents* residents_;
  mutable std::mutex mutex_;
  Nodes nodes_;  // oldest first
  std::unordered_map<tiers::ChunkKey, Nodes::iterator, Hash> by_key_;
  std::vector<protocol::NamespaceId> hidden_;
  std::uint32_t hidden_all_ = 0;
  std::uint64_t slot_bytes_ = 0;
};

}  // namespace larder::remote
