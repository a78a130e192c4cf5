// What a chunk of the store is called in a tier, and how large it is there. For the loop's thread.
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

// 0: nobody has told the layout of its shard and group.
inline std::uint64_t slot_bytes_of(store::Store& store, const protocol::Key& key) {
  const protocol::GroupLayout* layout = store.namespaces().at(key.namespace_handle).layout(key.shard, key.group);
  if (layout == nullptr) return 0;
  return protocol::slot_bytes(layout->piece_bytes * layout->pieces_per_chunk, layout->piece_bytes);
}

// Whether what a tier has is of that layout: it knows namespaces by their text alone, and the same text may have another layout.
inline bool of_layout(store::Store& store, const protocol::Key& key, const tiers::ChunkFacts& facts) {
  const protocol::GroupLayout* layout = store.namespaces().at(key.namespace_handle).layout(key.shard, key.group);
  return layout != nullptr && layout->piece_bytes == facts.piece_bytes &&
         layout->piece_bytes * layout->pieces_per_chunk == facts.payload_bytes;
}

}  // namespace larder::tiering
