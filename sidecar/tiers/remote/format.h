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

inline constexpr std::uint16_t kFormatVersion = 2;
// Of a part that is written: with what a server keeps beside a value it fits its allocator's class of 2 MiB.
inline constexpr std::uint32_t kPartBytes = (2 << 20) - 4096;
inline constexpr std::uint32_t kLeastPartBytes = 256 << 10, kMostPartBytes = 2 << 20;  // of one that is read
inline constexpr std::size_t kRecordBytes = 112;
// Of what stands under a record's key is asked for one byte more than a record has: so much, whatever somebody else put there.
inline constexpr std::string_view kRecordEnd = "112";

// What is kept under a chunk's own key: all but its bytes, which stand in parts.
struct Record {
  tiers::ChunkKey key;
  tiers::ChunkFacts facts;
  std::uint32_t part_bytes = kPartBytes;
  std::uint64_t writing = 0;  // names its parts: a random number of the put that wrote them, never 0
  std::uint32_t parts() const { return static_cast<std::uint32_t>((facts.slot_bytes() + part_bytes - 1) / part_bytes); }
  // Where part `number` stands in the slot.
  std::size_t part_offset(std::uint32_t number) const { return std::size_t{number} * part_bytes; }
  std::size_t part_size(std::uint32_t number) const {
    const std::uint64_t end = std::uint64_t{number + 1} * part_bytes, all = facts.slot_bytes();
    return static_cast<std::size_t>((end < all ? end : all) - part_offset(number));
  }
  friend bool operator==(const Record&, const Record&) = default;
};

// Whether these are the same bytes, whoever wrote them and when.
inline bool same_bytes(const tiers::ChunkFacts& a, const tiers::ChunkFacts& b) {
  return a.root == b.root && a.payload_bytes == b.payload_bytes && a.piece_bytes == b.piece_bytes;
}

std::string encode_record(const Record& record);
// Nothing: not a whole record of this version that speaks of this key.
std::optional<Record> decode_record(const tiers::ChunkKey& key, std::string_view bytes);

bool valid_prefix(std::string_view prefix);
std::string record_key(std::string_view prefix, const tiers::ChunkKey& key);
// Names the writing: parts of two puts never meet, whoever they are of.
std::string part_key(std::string_view prefix, const Record& record, std::uint32_t number);
// Of the keys of this prefix: a chunk's own, not a part's.
bool is_record_key(std::string_view prefix, std::string_view key);
// What SCAN's MATCH finds all keys of a namespace by, and all of the prefix.
std::string namespace_pattern(std::string_view prefix, const protocol::NamespaceId& id);
std::string prefix_pattern(std::string_view prefix);
// Under which a server is asked whether it takes commands: no chunk's.
std::string probe_key(std::string_view prefix);

}  // namespace larder::remote
