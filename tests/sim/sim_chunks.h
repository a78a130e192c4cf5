// SimChunks: the chunks of simulated engines: small, of two slot sizes, in three namespaces, one of
// these with two shards. The bytes of a chunk derive from its number and a generation.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "sidecar/store/namespace_table.h"
#include "sidecar/tiers/disk/disk_engine.h"
#include "tests/conformance/tier_chunks.h"

namespace larder::sim {

using tiers::testing_support::fill;
using tiers::testing_support::Slot;

struct Shape {
  std::uint64_t payload_bytes, piece_bytes;
  std::uint32_t shards;
};
inline constexpr std::array<Shape, 3> kShapes{{{4096, 4096, 1}, {12288, 3072, 2}, {5000, 2500, 1}}};
inline constexpr std::uint64_t kSpaces = kShapes.size();
inline constexpr std::uint64_t kFamilies = 12;  // of a namespace
inline constexpr std::uint64_t kNumbers = kSpaces * kFamilies * 2;

// Number = (family * spaces + space) * 2 + shard. Not every number is a chunk.
inline std::uint64_t space_of(std::uint64_t number) {
  return number / 2 % kSpaces;
}
inline const Shape& shape_of(std::uint64_t number) {
  return kShapes[space_of(number)];
}
inline bool exists(std::uint64_t number) {
  return number % 2 < shape_of(number).shards;
}
inline std::uint64_t slot_bytes_of(std::uint64_t number) {
  return protocol::slot_bytes(shape_of(number).payload_bytes, shape_of(number).piece_bytes);
}
inline std::string fingerprint_of(std::uint64_t space) {
  return "simulated: " + std::to_string(space) + "\n";
}
inline protocol::BlockHash hash_of(std::uint64_t number) {
  const std::uint64_t family = number / 2;
  return {(family + 1) * 0x9e3779b97f4a7c15ULL, (family + 1) * 0xc2b2ae3d27d4eb4fULL + 1};
}
inline tiers::ChunkKey key_of(std::uint64_t number) {
  static const std::array<protocol::NamespaceId, kSpaces> kIds{
      protocol::namespace_id(fingerprint_of(0)), protocol::namespace_id(fingerprint_of(1)),
      protocol::namespace_id(fingerprint_of(2))};
  return {kIds[space_of(number)], hash_of(number), static_cast<std::uint16_t>(number % 2), 0};
}
inline protocol::Key key_under(std::uint32_t handle, std::uint64_t number) {
  const tiers::ChunkKey key = key_of(number);
  return {key.hash, handle, key.shard, key.group};
}
inline store::NamespaceSpec spec_of(std::uint64_t space) {
  const Shape& shape = kShapes[space];
  store::NamespaceSpec spec;
  spec.id = protocol::namespace_id(fingerprint_of(space));
  spec.fingerprint = std::make_shared<const std::string>(fingerprint_of(space));
  spec.groups = {
      {shape.piece_bytes, static_cast<std::uint32_t>(shape.payload_bytes / shape.piece_bytes), 0}};
  spec.shard_count = shape.shards;
  spec.chunk_tokens = 256;
  spec.model = "simulated";
  return spec;
}
// The number of a chunk's family in its namespace; the first chunk of a family.
inline std::uint64_t family_of(std::uint64_t number) {
  return number / (2 * kSpaces);
}
inline std::uint64_t first_of(std::uint64_t family, std::uint64_t space) {
  return (family * kSpaces + space) * 2;
}
// Calls `call` with each chunk of `families` families, from the family of `number` on.
template <typename Call>
void each_chunk(std::uint64_t number, std::uint64_t families, const Call& call) {
  for (std::uint64_t i = 0; i < families; ++i)
    for (std::uint64_t shard = 0; shard < shape_of(number).shards; ++shard)
      call(first_of(family_of(number) + i, space_of(number)) + shard);
}
// The number of a key, and the space of a namespace; kNumbers or kSpaces: unknown.
inline std::uint64_t number_of(const tiers::ChunkKey& key) {
  std::uint64_t number = 0;
  while (number < kNumbers && !(exists(number) && key_of(number) == key)) ++number;
  return number;
}
inline std::uint64_t space_of(const protocol::NamespaceId& id) {
  std::uint64_t space = 0;
  while (space < kSpaces && key_of(first_of(0, space)).namespace_id != id) ++space;
  return space;
}
inline tiers::ChunkFacts fill_chunk(std::span<std::byte> slot, std::uint64_t number,
                                    std::uint64_t generation) {
  return fill(slot, number, generation, shape_of(number).payload_bytes,
              shape_of(number).piece_bytes);
}

// Whether the facts are those of the chunk and the slot has its payload. (Bytes behind payload and
// digest table do not count.)
inline bool right_bytes(std::span<const std::byte> slot, std::uint64_t number,
                        const tiers::ChunkFacts& facts) {
  Slot expected(slot_bytes_of(number));
  return fill_chunk(expected.span(), number, facts.generation) == facts &&
         std::memcmp(expected.span().data(), slot.data(), facts.payload_bytes) == 0;
}

// A small volume: regions of a few chunks each.
inline constexpr std::uint64_t kRegions = 8, kRegionBytes = 64 << 10;
inline disk::DiskOptions volume_options() {
  disk::DiskOptions options;
  options.path = "/simulated";
  options.region_bytes = kRegionBytes;
  options.size_bytes = kRegions * kRegionBytes + disk::kHeadBytes + (64 << 10);
  return options;
}

}  // namespace larder::sim
