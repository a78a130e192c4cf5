// The bytes of the disk tier's file: FORMAT.md is the grammar, this is its one reader and writer. Pure; thread-safe.
//
// Everything is little-endian and stands in blocks of 4 KiB. Every structure carries magic, version, the volume it belongs to,
// where it stands and its own checksum: what does not match in one of them is nothing at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sidecar/tiers/tier.h"

namespace larder::disk {

inline constexpr std::uint32_t kBlockBytes = 4096;
static_assert(kBlockBytes == protocol::kSlotAlignBytes, "a slot is whole blocks");
inline constexpr std::uint16_t kFormatVersion = 1;

// Where an append stands in the order of all appends: regions get ever higher sequences, blocks are appended in order.
struct Position {
  std::uint64_t sequence = 0;
  std::uint32_t block = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

// One chunk, as a footer and the catalog know it: `block` is its header's, from the region's start.
struct Record {
  tiers::ChunkKey key;
  tiers::ChunkFacts facts;
  std::uint32_t block = 0;
  std::uint32_t written_s = 0;  // Unix time
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(1 + facts.slot_bytes() / kBlockBytes); }
  friend bool operator==(const Record&, const Record&) = default;
};

// Which life of which region a structure belongs to.
struct RegionId {
  std::uint64_t volume = 0;  // drawn at random when the file is made
  std::uint64_t sequence = 0;
  std::uint32_t region = 0;
  friend bool operator==(const RegionId&, const RegionId&) = default;
};

// The block before a record's slot.
void encode_record(const RegionId& id, const Record& record, std::span<std::byte> block);
// In its place: how far the record reaches is still told, but no bytes are those of its root.
void encode_grave(const RegionId& id, const Record& record, std::span<std::byte> block);
std::optional<Record> decode_record(const RegionId& id, std::span<const std::byte> block);

// The last block of a region.
struct Trailer {
  RegionId id;
  bool closed = false;  // false: opened for appends, no footer yet
  std::uint32_t count = 0;
  std::uint64_t entries_checksum = 0;
};
void encode_trailer(const Trailer& trailer, std::span<std::byte> block);
// Of the volume and region it is expected to be; any sequence.
std::optional<Trailer> decode_trailer(std::uint64_t volume, std::uint32_t region, std::span<const std::byte> block);

// A footer: its entries, which end where the trailer begins, and the trailer.
inline constexpr std::uint32_t kEntryBytes = 72;
constexpr std::uint32_t entry_blocks(std::size_t count) {
  return static_cast<std::uint32_t>((count * kEntryBytes + kBlockBytes - 1) / kBlockBytes);
}
constexpr std::uint32_t footer_blocks(std::size_t count) {
  return entry_blocks(count) + 1;
}
// REQUIRES: footer.size() == footer_blocks(records.size()) * kBlockBytes.
void encode_footer(const RegionId& id, std::span<const Record> records, std::span<std::byte> footer);
// `entries` are the blocks between records and trailer. False: they are not what the trailer speaks of.
bool decode_entries(const Trailer& trailer, std::span<const std::byte> entries, std::vector<Record>& out);

// What was dropped: records of the namespace (of all) that were appended before `until`.
struct DropMark {
  protocol::NamespaceId namespace_id;
  Position until;
  friend bool operator==(const DropMark&, const DropMark&) = default;
};
inline constexpr std::uint32_t kMaxDropMarks = 1024;

// The head of the file, twice, the same.
inline constexpr std::uint32_t kSuperblockBytes = 64 * 1024;
inline constexpr std::uint64_t kHeadBytes = 2 * kSuperblockBytes;
struct Superblock {
  std::uint64_t volume = 0;
  std::uint64_t serial = 0;  // grows with each writing
  std::uint64_t region_bytes = 0;
  Position all_dropped;  // as a DropMark of every namespace
  std::vector<DropMark> drops;
  bool dropped(const Record& record, std::uint64_t sequence) const;
};
// REQUIRES: at most kMaxDropMarks drops, label_bytes.size() == kSuperblockBytes.
void encode_superblock(const Superblock& superblock, std::span<std::byte> superblock_bytes);
enum class SuperblockFault { kNone, kOtherVersion, kDamaged };
SuperblockFault decode_superblock(std::span<const std::byte> superblock_bytes, Superblock& out);

}  // namespace larder::disk
