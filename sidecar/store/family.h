// The chunks of one block hash, in all shards and groups that this larderd keeps: a family (see
// Store).
//
// Free functions over the slots of a ChunkTable, for the thread of the store. The caller owns the
// results, so that a search allocates no memory once they have grown.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/protocol/index_layout.h"
#include "sidecar/store/chunk_table.h"

namespace larder::store {

// The slots of a family; the writers of granted slots have not finished.
struct Family {
  std::vector<std::uint32_t> committed, granted;
  std::uint32_t expected = 0;
  bool whole() const { return committed.size() == expected; }
  void clear() { committed.clear(), granted.clear(), expected = 0; }
};

// One chunk of a family: committed, granted (an engine or a promotion writes it), or kFree:
// missing.
struct Member {
  protocol::Key key;
  protocol::SlotRef slot;
  protocol::SlotState state = protocol::SlotState::kFree;
};

// Calls visit(key) with `key` in every shard and group that its namespace keeps.
template <typename Visit>
void each_member(const NamespaceSpec& spec, protocol::Key key, const Visit& visit) {
  for (std::uint32_t shard = 0; shard < spec.shard_count; ++shard) {
    for (std::uint32_t group = 0; group < spec.groups.size(); ++group) {
      if (!spec.has(shard, group)) continue;  // mutation: part-left-out
      key.shard = static_cast<std::uint16_t>(shard);
      key.group = static_cast<std::uint16_t>(group);
      visit(key);
    }
  }
}

// Finds the slots of a family. `known`: a committed slot of the family, or kNoSlot; saves the
// look-up for a family of one chunk. REQUIRES: the handle is open.
void find_family(ChunkTable& chunks, std::uint32_t handle, const protocol::BlockHash& hash,
                 Family& family, std::uint32_t known = kNoSlot);
// Lists the chunks of a family in `members`; empty for a handle that is not open.
void look_at_family(ChunkTable& chunks, std::uint32_t handle, const protocol::BlockHash& hash,
                    std::vector<Member>& members);
// Prefetches the lines that find_family() reads. Without effect for a slot that is not committed.
void prefetch_family(ChunkTable& chunks, std::uint32_t slot);

}  // namespace larder::store
