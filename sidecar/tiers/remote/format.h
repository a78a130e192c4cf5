// The keys and the record of a chunk in Redis or Valkey: FORMAT.md is the grammar, this is its one reader and writer. Pure;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sidecar/tiers/tier.h"

namespace larder::remote {

inline constexpr std::uint16_t kFormatVersion = 1;
// Of a part that is written: with what a server keeps beside a value it fits its allocator's class of 2 MiB.
inline constexpr std::uint32_t kPartBytes = (2 << 20) - 4096;
inline constexpr std::uint32_t kLeastPartBytes = 256 << 10, kMostPartBytes = 2 << 20;  // of one that is read
inline constexpr std::size_t kRecordBytes = 104;

// What is kept under a chunk's own key: all but its bytes, which stand in parts.
struct Record {
  tiers::ChunkKey key;
  tiers::ChunkFacts facts;
  std::uint32_t part_bytes = kPartBytes;
  std::uint32_t parts() const { return static_cast<std::uint32_t>((facts.slot_bytes() + part_bytes - 1) / part_bytes); }
  // Where part `number` stands in the slot.
  std::size_t part_offset(std::uint32_t number) const { return std::size_t{number} * part_bytes; }
  std::size_t part_size(std::uint32_t number) const {
    const std::uint64_t end = std::uint64_t{number + 1} * part_bytes, all = facts.slot_bytes();
    return static_cast<std::size_t>((end < all ? end : all) - part_offset(number));
  }
  friend bool operator==(const Record&, const Record&) = default;
};

// Whether these are the same bytes under the same keys.
inline bool same_parts(const Record& a, const Record& b) {
  return a.facts.generation == b.facts.generation && a.facts.root == b.facts.root;
}

std::string encode_record(const Record& record);
// Nothing: not a whole record of this version that speaks of this key.
std::optional<Record> decode_record(const tiers::ChunkKey& key, std::string_view bytes);

bool valid_prefix(std::string_view prefix);
std::string record_key(std::string_view prefix, const tiers::ChunkKey& key);
// Names generation and root: parts of two writings never meet.
std::string part_key(std::string_view prefix, const Record& record, std::uint32_t number);
// Of the keys of this prefix: a chunk's own, not a part's.
bool is_record_key(std::string_view prefix, std::string_view key);
// What SCAN's MATCH finds all keys of a namespace by, and all of the prefix.
std::string namespace_pattern(std::string_view prefix, const protocol::NamespaceId& id);
std::string prefix_pattern(std::string_view prefix);
// Under which a server is asked whether it takes commands: no chunk's.
std::string probe_key(std::string_view prefix);

}  // namespace larder::remote
