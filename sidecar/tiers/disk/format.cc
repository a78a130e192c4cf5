#include "sidecar/tiers/disk/format.h"

#include <algorithm>
#include <cstring>

namespace larder::disk {
namespace {

// The first bytes of a structure are readable in a hex dump: `4c 44 52 31 01 00` begins a record
// of version 1. No structure is trusted for its offset alone: each states its volume and place.
constexpr std::uint32_t kRecordMagic = 0x3152444c;   // "LDR1"
constexpr std::uint32_t kTrailerMagic = 0x3154444c;  // "LDT1"
constexpr std::uint32_t kLabelMagic = 0x314c444c;    // "LDL1"

// The structs have no implicit padding, so no uninitialized byte reaches the checksum or the disk.
// The assertions pin what FORMAT.md says.
struct RecordBytes {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t zero;
  std::uint64_t volume;
  std::uint64_t sequence;
  std::uint32_t region;
  std::uint32_t block;
  protocol::NamespaceId namespace_id;
  protocol::BlockHash hash;
  std::uint16_t shard;
  std::uint16_t group;
  std::uint32_t written_s;
  std::uint64_t generation;
  std::uint64_t payload_bytes;
  std::uint64_t piece_bytes;
  std::uint64_t root;
  std::uint64_t checksum;  // over all fields before
};
static_assert(sizeof(RecordBytes) == 112 && offsetof(RecordBytes, namespace_id) == 32 &&
              offsetof(RecordBytes, checksum) == 104);

struct EntryBytes {
  protocol::NamespaceId namespace_id;
  protocol::BlockHash hash;
  std::uint64_t generation;
  std::uint64_t root;
  std::uint32_t payload_bytes;
  std::uint32_t piece_bytes;
  std::uint32_t block;
  std::uint32_t written_s;
  std::uint16_t shard;
  std::uint16_t group;
  std::uint32_t zero;
};
static_assert(sizeof(EntryBytes) == kEntryBytes && offsetof(EntryBytes, shard) == 64);
// An entry has 32 bits for each size, a header 64: a footer of small chunks stays 1.5 MiB instead
// of 1.7.
static_assert(protocol::kMaxPayloadBytes <= UINT32_MAX && protocol::kMaxPieceBytes <= UINT32_MAX);

enum : std::uint16_t { kOpen = 1, kClosed = 2 };
struct TrailerBytes {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t kind;
  std::uint64_t volume;
  std::uint64_t sequence;
  std::uint32_t region;
  std::uint32_t count;
  std::uint64_t entries_checksum;
  std::uint64_t checksum;
};
static_assert(sizeof(TrailerBytes) == 48 && offsetof(TrailerBytes, checksum) == 40);

struct MarkBytes {
  protocol::NamespaceId namespace_id;
  std::uint64_t sequence;
  std::uint32_t block;
  std::uint32_t zero;
};
static_assert(sizeof(MarkBytes) == 32);

// A fixed table: a superblock of any number of marks is written by one request of one length.
struct LabelBytes {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t zero;
  std::uint64_t volume;
  std::uint64_t serial;
  std::uint64_t region_bytes;
  std::uint64_t all_sequence;
  std::uint32_t all_block;
  std::uint32_t mark_count;
  MarkBytes marks[kMaxDropMarks];
  std::uint64_t checksum;
};
static_assert(sizeof(LabelBytes) <= kSuperblockBytes && offsetof(LabelBytes, marks) == 48);

// Every structure ends with a checksum over all fields before; the rest of the block is zero.
template <typename Bytes>
void seal(Bytes& bytes, std::span<std::byte> out) {
  bytes.checksum = protocol::unit_digest(&bytes, offsetof(Bytes, checksum));
  std::memset(out.data(), 0, out.size());
  std::memcpy(out.data(), &bytes, sizeof(bytes));
}

template <typename Bytes>
bool unseal(std::span<const std::byte> in, std::uint32_t magic, Bytes& bytes) {
  if (in.size() < sizeof(bytes)) return false;
  // Copied before the check: the memory may be a shared buffer, and must not change between check
  // and use.
  std::memcpy(&bytes, in.data(), sizeof(bytes));
  // The magic and version come first: a block of another version should not cost a hash.
  return bytes.magic == magic && bytes.version == kFormatVersion &&
         bytes.checksum ==
             protocol::unit_digest(&bytes, offsetof(Bytes, checksum));  // mutation: disk-checksum
}

}  // namespace

void encode_record(const RegionId& id, const Record& record, std::span<std::byte> block) {
  RecordBytes bytes{};
  bytes.magic = kRecordMagic;
  bytes.version = kFormatVersion;
  bytes.volume = id.volume;
  bytes.sequence = id.sequence;
  bytes.region = id.region;
  bytes.block = record.block;
  bytes.namespace_id = record.key.namespace_id;
  bytes.hash = record.key.hash;
  bytes.shard = record.key.shard;
  bytes.group = record.key.group;
  bytes.written_s = record.written_s;
  bytes.generation = record.facts.generation;
  bytes.payload_bytes = record.facts.payload_bytes;
  bytes.piece_bytes = record.facts.piece_bytes;
  bytes.root = record.facts.root;
  seal(bytes, block.first(kBlockBytes));
}

void encode_tombstone(const RegionId& id, const Record& record, std::span<std::byte> block) {
  Record tombstone = record;
  // The length stays, so a scan finds the next record. The inverted root matches no bytes, so a
  // scan rejects this record.
  tombstone.facts.root = ~record.facts.root;
  encode_record(id, tombstone, block);
}

std::optional<Record> decode_record(const RegionId& id, std::span<const std::byte> block) {
  RecordBytes bytes{};
  if (!unseal(block, kRecordMagic, bytes)) return std::nullopt;
  // A region is reused without being erased: intact headers of an earlier life lie behind the new
  // records. Only the sequence tells the two lives apart.
  if (RegionId{bytes.volume, bytes.sequence, bytes.region} != id)
    return std::nullopt;  // mutation: record-region-id
  const Record record{{bytes.namespace_id, bytes.hash, bytes.shard, bytes.group},
                      {bytes.generation, bytes.payload_bytes, bytes.piece_bytes, bytes.root},
                      bytes.block,
                      bytes.written_s};
  // A checksum proves no origin: a file may be crafted. Later code computes offsets from these
  // sizes.
  if (!tiers::plausible(record.facts)) return std::nullopt;
  return record;
}

void encode_trailer(const Trailer& trailer, std::span<std::byte> block) {
  TrailerBytes bytes{};
  bytes.magic = kTrailerMagic;
  bytes.version = kFormatVersion;
  bytes.kind = trailer.closed ? kClosed : kOpen;
  bytes.volume = trailer.id.volume;
  bytes.sequence = trailer.id.sequence;
  bytes.region = trailer.id.region;
  bytes.count = trailer.count;
  bytes.entries_checksum = trailer.entries_checksum;
  seal(bytes, block.first(kBlockBytes));
}

std::optional<Trailer> decode_trailer(std::uint64_t volume, std::uint32_t region,
                                      std::span<const std::byte> block) {
  TrailerBytes bytes{};
  if (!unseal(block, kTrailerMagic, bytes)) return std::nullopt;
  if (bytes.volume != volume || bytes.region != region) return std::nullopt;
  // The count is not checked here. Recovery::see_trailer() compares it with the size of the
  // region.
  if (bytes.kind != kOpen && bytes.kind != kClosed) return std::nullopt;
  return Trailer{
      {volume, bytes.sequence, region}, bytes.kind == kClosed, bytes.count, bytes.entries_checksum};
}

void encode_footer(const RegionId& id, std::span<const Record> records,
                   std::span<std::byte> footer) {
  std::memset(footer.data(), 0, footer.size());
  // The entries end directly before the trailer, which is always the last block. A reader finds
  // both from the end of the region.
  const std::span<std::byte> entries = footer.first(footer.size() - kBlockBytes);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    EntryBytes bytes{};
    bytes.namespace_id = record.key.namespace_id;
    bytes.hash = record.key.hash;
    bytes.generation = record.facts.generation;
    bytes.root = record.facts.root;
    bytes.payload_bytes = static_cast<std::uint32_t>(record.facts.payload_bytes);
    bytes.piece_bytes = static_cast<std::uint32_t>(record.facts.piece_bytes);
    bytes.block = record.block;
    bytes.written_s = record.written_s;
    bytes.shard = record.key.shard;
    bytes.group = record.key.group;
    std::memcpy(entries.data() + i * kEntryBytes, &bytes, sizeof(bytes));
  }
  const std::uint64_t checksum = protocol::unit_digest(entries.data(), entries.size());
  encode_trailer({id, true, static_cast<std::uint32_t>(records.size()), checksum},
                 footer.last(kBlockBytes));
}

bool decode_entries(const Trailer& trailer, std::span<const std::byte> entries,
                    std::vector<Record>& out) {
  if (entries.size() != std::size_t{entry_blocks(trailer.count)} * kBlockBytes) return false;
  if (protocol::unit_digest(entries.data(), entries.size()) !=
      trailer.entries_checksum)  // mutation: footer-checksum
    return false;
  out.reserve(out.size() + trailer.count);
  for (std::size_t i = 0; i < trailer.count; ++i) {
    EntryBytes bytes{};
    std::memcpy(&bytes, entries.data() + i * kEntryBytes, sizeof(bytes));
    const Record record{{bytes.namespace_id, bytes.hash, bytes.shard, bytes.group},
                        {bytes.generation, bytes.payload_bytes, bytes.piece_bytes, bytes.root},
                        bytes.block,
                        bytes.written_s};
    if (tiers::plausible(record.facts)) out.push_back(record);
  }
  return true;
}

bool Superblock::dropped(const Record& record, std::uint64_t sequence) const {
  const Position at{sequence, record.block};
  // A linear search over at most 1,024 marks runs for each record at a start. Marks older than the
  // oldest region are removed, so the table is nearly empty.
  if (at < all_dropped) return true;
  return std::ranges::any_of(drops, [&](const DropMark& mark) {
    return at < mark.until && mark.namespace_id == record.key.namespace_id;
  });
}

void encode_superblock(const Superblock& superblock, std::span<std::byte> superblock_bytes) {
  LabelBytes bytes{};
  bytes.magic = kLabelMagic;
  bytes.version = kFormatVersion;
  bytes.volume = superblock.volume;
  bytes.serial = superblock.serial;
  bytes.region_bytes = superblock.region_bytes;
  bytes.all_sequence = superblock.all_dropped.sequence;
  bytes.all_block = superblock.all_dropped.block;
  bytes.mark_count = static_cast<std::uint32_t>(superblock.drops.size());
  for (std::size_t i = 0; i < superblock.drops.size(); ++i)
    bytes.marks[i] = {superblock.drops[i].namespace_id, superblock.drops[i].until.sequence,
                      superblock.drops[i].until.block, 0};
  seal(bytes, superblock_bytes);
}

SuperblockFault decode_superblock(std::span<const std::byte> superblock_bytes, Superblock& out) {
  LabelBytes bytes{};
  if (!unseal(superblock_bytes, kLabelMagic, bytes))
    return bytes.magic == kLabelMagic && bytes.version != kFormatVersion
               ? SuperblockFault::kOtherVersion
               : SuperblockFault::kDamaged;
  // The checksum matched, so this file was written by a program with larger tables, or on purpose.
  if (bytes.mark_count > kMaxDropMarks) return SuperblockFault::kDamaged;
  out = {bytes.volume, bytes.serial, bytes.region_bytes, {bytes.all_sequence, bytes.all_block}, {}};
  for (std::size_t i = 0; i < bytes.mark_count; ++i)
    out.drops.push_back(
        {bytes.marks[i].namespace_id, {bytes.marks[i].sequence, bytes.marks[i].block}});
  return SuperblockFault::kNone;
}

}  // namespace larder::disk
