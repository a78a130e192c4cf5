// The checksum of a chunk: XXH3-64 over each unit of at most 4 KiB of each piece, and XXH3-64 over
// these digests. The digest table is in the slot behind the payload; the digest of the table, the
// root, is in the index.
//
// A piece is one layer's part of one block. The payload has the pieces layer by layer, and inside a
// layer block by block. The last unit of a piece may be short. Digests are little-endian words in
// the order of the bytes. Pure functions; thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "shim/protocol/key.h"
#include "shim/protocol/limits.h"

namespace larder::protocol {

static_assert(std::endian::native == std::endian::little, "the layouts are little-endian");

constexpr std::uint64_t units_per_piece(std::uint64_t piece_bytes) {
  return (piece_bytes + kDigestUnitBytes - 1) / kDigestUnitBytes;
}

// REQUIRES: piece_bytes > 0 and payload_bytes a multiple of it.
constexpr std::uint64_t digest_count(std::uint64_t payload_bytes, std::uint64_t piece_bytes) {
  return payload_bytes / piece_bytes * units_per_piece(piece_bytes);
}

// The table starts at the end of the payload, rounded up to a word.
constexpr std::uint64_t digest_table_offset(std::uint64_t payload_bytes) {
  return (payload_bytes + 7) / 8 * 8;
}

// The slot size of a chunk: payload and table, rounded up to kSlotAlignBytes.
constexpr std::uint64_t slot_bytes(std::uint64_t payload_bytes, std::uint64_t piece_bytes) {
  const std::uint64_t used =
      digest_table_offset(payload_bytes) + 8 * digest_count(payload_bytes, piece_bytes);
  return (used + kSlotAlignBytes - 1) / kSlotAlignBytes * kSlotAlignBytes;
}

inline std::uint64_t unit_digest(const void* unit, std::size_t size_bytes) {
  return XXH3_64bits(unit, size_bytes);
}

// Writes units_per_piece(piece_bytes) digests.
inline void piece_digests(const std::byte* piece, std::uint64_t piece_bytes,
                          std::uint64_t* digests) {
  for (std::uint64_t at = 0; at < piece_bytes; at += kDigestUnitBytes)
    *digests++ = unit_digest(piece + at, static_cast<std::size_t>(std::min<std::uint64_t>(
                                             kDigestUnitBytes, piece_bytes - at)));
}

inline std::uint64_t root_digest(const std::uint64_t* digests, std::uint64_t count) {
  return XXH3_64bits(digests, static_cast<std::size_t>(count * sizeof(std::uint64_t)));
}

}  // namespace larder::protocol
