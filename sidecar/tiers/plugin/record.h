// The record of a chunk: the first 128 bytes of each object, before the bytes of the slot. This is
// the only reader and writer (docs/design/plugin.md). Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sidecar/tiers/tier.h"

namespace larder::plugin {

inline constexpr std::size_t kRecordBytes = 128;

// A chunk with its facts. A chunk that is only known to exist has generation 0 and root 0.
struct Chunk {
  tiers::ChunkKey key;
  tiers::ChunkFacts facts;
};

// REQUIRES: `out` has kRecordBytes.
void encode_record(const Chunk& chunk, std::span<std::byte> out);
// Empty: not the record of an object of this key and size. `record`: a copy that no other process
// can write to.
std::optional<tiers::ChunkFacts> decode_record(const tiers::ChunkKey& key,
                                               std::span<const std::byte> record,
                                               std::uint64_t object_bytes);

// PREFIX:1:
std::string pool_prefix(std::string_view prefix);
// PREFIX:1:NAMESPACE:
std::string namespace_prefix(std::string_view prefix, const protocol::NamespaceId& id);
// PREFIX:1:NAMESPACE:CHUNK
std::string object_key(std::string_view prefix, const tiers::ChunkKey& key);

}  // namespace larder::plugin
