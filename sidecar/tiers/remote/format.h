// The keys and the record of a chunk in Redis or Valkey. FORMAT.md is the grammar; this is the only
// reader and writer. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sidecar/tiers/tier.h"

namespace larder::remote {

inline constexpr std::uint16_t kFormatVersion = 2;
// The size of a written part: with the overhead of the server for a value, a part fits the
// allocator's class of 2 MiB.
inline constexpr std::uint32_t kPartBytes = (2 << 20) - 4096;
inline constexpr std::uint32_t kLeastPartBytes = 256 << 10,
                               kMostPartBytes = 2 << 20;  // of a part to read
inline constexpr std::size_t kRecordBytes = 112;
// The end of the range to read under the key of a record: one byte more than a record has. The
// bound holds for any foreign value.
inline constexpr std::string_view kRecordEnd = "112";

// The value under the key of a chunk: all data except the bytes, which are in parts.
struct Record {
  tiers::ChunkKey key;
  tiers::ChunkFacts facts;
  std::uint32_t part_bytes = kPartBytes;
  std::uint64_t writing = 0;  // part of the names of its parts: a random number of the put, never 0
  std::uint32_t parts() const {
    return static_cast<std::uint32_t>((facts.slot_bytes() + part_bytes - 1) / part_bytes);
  }
  // The place of part `number` in the slot.
  std::size_t part_offset(std::uint32_t number) const { return std::size_t{number} * part_bytes; }
  std::size_t part_size(std::uint32_t number) const {
    const std::uint64_t end = std::uint64_t{number + 1} * part_bytes, all = facts.slot_bytes();
    return static_cast<std::size_t>((end < all ? end : all) - part_offset(number));
  }
  friend bool operator==(const Record&, const Record&) = default;
};

std::string encode_record(const Record& record);
// Empty: not a complete record of this version for this key.
std::optional<Record> decode_record(const tiers::ChunkKey& key, std::string_view bytes);

std::string record_key(std::string_view prefix, const tiers::ChunkKey& key);
// Contains the writing, so that parts of two puts never share a key.
std::string part_key(std::string_view prefix, const Record& record, std::uint32_t number);
// Whether a key of this prefix is the key of a record and not of a part.
bool is_record_key(std::string_view prefix, std::string_view key);
// Patterns for MATCH of SCAN: all keys of a namespace, all keys of the prefix.
std::string namespace_pattern(std::string_view prefix, const protocol::NamespaceId& id);
std::string prefix_pattern(std::string_view prefix);
// The key of the test whether a server accepts commands; never the key of a chunk.
std::string probe_key(std::string_view prefix);

}  // namespace larder::remote
