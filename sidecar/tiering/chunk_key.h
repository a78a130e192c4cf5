// The name of a chunk of the store in a tier, and its size there. For the thread of the loop.
#pragma once

#include <cstdint>

#include "shim/protocol/checksum.h"
#include "sidecar/store/store.h"
#include "sidecar/tiers/tier.h"

namespace larder::tiering {

// REQUIRES: the namespace is open.
inline tiers::ChunkKey chunk_key_of(store::Store& store, const protocol::Key& key) {
  return {store.namespaces().at(key.namespace_handle).spec.id, key.hash, key.shard, key.group};
}

// 0: the layout of the shard and group is unknown.
inline std::uint64_t slot_bytes_of(store::Store& store, const protocol::Key& key) {
  const protocol::GroupLayout* layout =
      store.namespaces().at(key.namespace_handle).layout(key.shard, key.group);
  if (layout == nullptr) return 0;
  return protocol::slot_bytes(layout->piece_bytes * layout->pieces_per_chunk, layout->piece_bytes);
}

// Whether a chunk in a tier has the layout of the namespace. A tier knows namespaces by their text,
// and the same text may have another layout.
inline bool of_layout(store::Store& store, const protocol::Key& key,
                      const tiers::ChunkFacts& facts) {
  const protocol::GroupLayout* layout =
      store.namespaces().at(key.namespace_handle).layout(key.shard, key.group);
  return layout != nullptr && layout->piece_bytes == facts.piece_bytes &&
         layout->piece_bytes * layout->pieces_per_chunk == facts.payload_bytes;
}

}  // namespace larder::tiering
