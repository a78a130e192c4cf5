// The bytes of the file of the disk tier. FORMAT.md is the grammar; this is the only reader and
// writer. Pure; thread-safe.
//
// All numbers are little-endian, in blocks of 4 KiB. Every structure has magic, version, volume,
// place and checksum. A structure with one mismatch is ignored.
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

// The position of an append in the order of all appends: sequences of regions grow, and blocks are
// appended in order.
struct Position {
  std::uint64_t sequence = 0;
  std::uint32_t block = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

// One chunk as in a footer and in the catalog. `block`: the block of the header, from the start of
// the region.
struct Record {
  tiers::ChunkKey key;
  tiers::ChunkFacts facts;
  std::uint32_t block = 0;
  std::uint32_t written_s = 0;  // Unix time
  std::uint32_t blocks() const {
    return static_cast<std::uint32_t>(1 + facts.slot_bytes() / kBlockBytes);
  }
  friend bool operator==(const Record&, const Record&) = default;
};

// The region of a structure, and the sequence under which the region was opened.
struct RegionId {
  std::uint64_t volume = 0;  // a random number from the creation of the file
  std::uint64_t sequence = 0;
  std::uint32_t region = 0;
  friend bool operator==(const RegionId&, const RegionId&) = default;
};

// The block before the slot of a record.
void encode_record(const RegionId& id, const Record& record, std::span<std::byte> block);
// A grave in the place of a header: it keeps the length of the record, but no bytes match its root.
void encode_tombstone(const RegionId& id, const Record& record, std::span<std::byte> block);
std::optional<Record> decode_record(const RegionId& id, std::span<const std::byte> block);

// The last block of a region.
struct Trailer {
  RegionId id;
  bool closed = false;  // false: opened for appends, no footer yet
  std::uint32_t count = 0;
  std::uint64_t entries_checksum = 0;
};
void encode_trailer(const Trailer& trailer, std::span<std::byte> block);
// Decodes a trailer of this volume and region, with any sequence.
std::optional<Trailer> decode_trailer(std::uint64_t volume, std::uint32_t region,
                                      std::span<const std::byte> block);

// A footer: entries, directly before the trailer, and the trailer.
inline constexpr std::uint32_t kEntryBytes = 72;
constexpr std::uint32_t entry_blocks(std::size_t count) {
  return static_cast<std::uint32_t>((count * kEntryBytes + kBlockBytes - 1) / kBlockBytes);
}
constexpr std::uint32_t footer_blocks(std::size_t count) {
  return entry_blocks(count) + 1;
}
// REQUIRES: footer.size() == footer_blocks(records.size()) * kBlockBytes.
void encode_footer(const RegionId& id, std::span<const Record> records,
                   std::span<std::byte> footer);
// `entries`: the blocks between records and trailer. False: the checksum of the trailer does not
// match.
bool decode_entries(const Trailer& trailer, std::span<const std::byte> entries,
                    std::vector<Record>& out);

// A drop: all records of the namespace that were appended before `until`.
struct DropMark {
  protocol::NamespaceId namespace_id;
  Position until;
  friend bool operator==(const DropMark&, const DropMark&) = default;
};
inline constexpr std::uint32_t kMaxDropMarks = 1024;

// The head of the file has two equal superblocks.
inline constexpr std::uint32_t kSuperblockBytes = 64 * 1024;
inline constexpr std::uint64_t kHeadBytes = 2 * kSuperblockBytes;
struct Superblock {
  std::uint64_t volume = 0;
  std::uint64_t serial = 0;  // grows with each write
  std::uint64_t region_bytes = 0;
  Position all_dropped;  // the DropMark of every namespace
  std::vector<DropMark> drops;
  bool dropped(const Record& record, std::uint64_t sequence) const;
};
// REQUIRES: at most kMaxDropMarks drops, superblock_bytes.size() == kSuperblockBytes.
void encode_superblock(const Superblock& superblock, std::span<std::byte> superblock_bytes);
enum class SuperblockFault { kNone, kOtherVersion, kDamaged };
SuperblockFault decode_superblock(std::span<const std::byte> superblock_bytes, Superblock& out);

}  // namespace larder::disk
