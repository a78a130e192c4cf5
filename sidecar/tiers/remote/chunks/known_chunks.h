// KnownChunks: the chunks that the backend is known to have, from puts, gets and probes. The server
// may have lost a known chunk since.
//
// Thread-safe: one mutex, held for a few map operations. The thread of the tier writes; any thread
// reads and hides.
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
  // Beyond `most` the oldest chunks are forgotten. `residents`, or nullptr, outlives this object.
  KnownChunks(std::size_t most, tiers::Residents* residents) : most_(most), residents_(residents) {}

  // Chunks of a hidden namespace and expired chunks are not found.
  std::optional<Record> find(const tiers::ChunkKey& key, std::uint64_t now_ns) const;
  // Replaces a chunk with the same key. Not found from `until_ns` on.
  void insert(const Record& record, std::uint64_t until_ns = UINT64_MAX);
  // Erases a chunk, with `generation` only a chunk of this generation. Returns whether it was
  // known.
  bool erase(const tiers::ChunkKey& key, std::optional<std::uint64_t> generation = {});
  std::uint64_t erase_namespace(const protocol::NamespaceId& id);
  std::uint64_t erase_all();

  // Hides chunks between the request of a drop and its end on the server. Calls nest.
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
