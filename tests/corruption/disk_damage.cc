#include "tests/corruption/disk_damage.h"

#include <algorithm>
#include <array>

namespace larder::corruption {
namespace {

constexpr std::size_t kMostBurst = 256;
// The bytes of each structure under its checksum, with the checksum (FORMAT.md). The zeroes that
// follow are not used.
constexpr std::size_t kHeaderBytes = 112, kTrailerBytes = 48,
                      kLabelUsedBytes = 48 + 32 * disk::kMaxDropMarks + 8;

}  // namespace

std::string_view name_of(DiskKind kind) {
  static constexpr std::array<std::string_view, kDiskKinds> kNames{
      "header flip",     "header burst",     "torn header",      "payload flip",
      "payload burst",   "torn payload",     "table flip",       "table burst",
      "torn record",     "stale record",     "stale gen.",       "other volume",
      "swapped records", "footer flip",      "footer burst",     "torn footer",
      "trailer flip",    "trailer burst",    "stale trailer",    "swapped trailers",
      "superblock flip", "superblock burst", "stale superblock", "both superblocks",
      "truncated"};
  return kNames[static_cast<std::size_t>(kind)];
}

DiskDamage::Bytes DiskDamage::read(std::uint64_t at, std::size_t bytes) const {
  const std::span<const std::byte> from = records_.bytes().subspan(at, bytes);
  return {from.begin(), from.end()};
}

void DiskDamage::write(std::uint64_t at, std::span<const std::byte> bytes) {
  const std::span<const std::byte> before = records_.bytes().subspan(at, bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (before[i] != bytes[i]) places.push_back(at + i);
  records_.write(at, bytes);
}

void DiskDamage::flip(std::uint64_t at, std::size_t bytes) {
  const std::uint64_t place = at + below(bytes);
  const std::byte flipped = records_.bytes()[place] ^ static_cast<std::byte>(1 << below(8));
  write(place, std::span(&flipped, 1));
}

// Random bytes; the first byte always changes.
void DiskDamage::burst(std::uint64_t at, std::size_t bytes) {
  const std::size_t first = below(bytes);
  Bytes noise(1 + below(std::min(kMostBurst, bytes - first)));
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random_());
  noise[0] = records_.bytes()[at + first] ^ static_cast<std::byte>(1 + below(255));
  write(at + first, noise);
}

// Takes some pieces from `from`, at least one of them different.
void DiskDamage::tear(std::uint64_t at, const Bytes& from, std::size_t piece) {
  std::vector<std::size_t> differ;
  for (std::size_t i = 0; i < from.size(); i += piece) {
    const std::size_t size = std::min(piece, from.size() - i);
    if (!std::equal(from.begin() + static_cast<long>(i), from.begin() + static_cast<long>(i + size),
                    &records_.bytes()[at + i]))
      differ.push_back(i);
  }
  if (differ.empty()) return flip(at, from.size());
  const std::size_t surely = differ[below(differ.size())];
  for (const std::size_t i : differ)
    if (i == surely || below(2) == 0)
      write(at + i, std::span(from).subspan(i, std::min(piece, from.size() - i)));
}

DiskDamage::Bytes DiskDamage::whole_record(const StoredRecords::Stored& chunk,
                                           const disk::RegionId& id,
                                           std::uint64_t generation) const {
  Bytes bytes(disk::kBlockBytes + sim::slot_bytes_of(chunk.number));
  disk::Record record = chunk.record;
  record.facts =
      sim::fill_chunk(std::span(bytes).subspan(disk::kBlockBytes), chunk.number, generation);
  disk::encode_record(id, record, std::span(bytes).first(disk::kBlockBytes));
  return bytes;
}

void DiskDamage::of_record(DiskKind kind, const StoredRecords::Stored& chunk,
                           const StoredRecords::Stored* other) {
  const std::uint64_t header = StoredRecords::header_at(chunk),
                      slot = StoredRecords::slot_at(chunk);
  const tiers::ChunkFacts& facts = chunk.record.facts;
  const std::uint64_t table = slot + protocol::digest_table_offset(facts.payload_bytes);
  const std::uint64_t table_bytes =
      8 * protocol::digest_count(facts.payload_bytes, facts.piece_bytes);
  const disk::RegionId id = records_.id_of(chunk.region);
  const std::uint64_t earlier = facts.generation - 1 - below(900);
  disk::RegionId elsewhere = id;
  switch (kind) {
    case DiskKind::kHeaderFlip: return flip(header, kHeaderBytes);
    case DiskKind::kHeaderBurst: return burst(header, kHeaderBytes);
    case DiskKind::kPayloadFlip: return flip(slot, facts.payload_bytes);
    case DiskKind::kPayloadBurst: return burst(slot, facts.payload_bytes);
    case DiskKind::kTableFlip: return flip(table, table_bytes);
    case DiskKind::kTableBurst: return burst(table, table_bytes);
    case DiskKind::kStaleGeneration: return write(header, whole_record(chunk, id, earlier));
    case DiskKind::kOtherVolume:
      elsewhere.volume ^= 1 + below(1000);
      return write(header, whole_record(chunk, elsewhere, facts.generation));
    case DiskKind::kSwappedRecords: {
      const Bytes mine = read(header, disk::kBlockBytes + facts.slot_bytes());
      const Bytes its = read(StoredRecords::header_at(*other), mine.size());
      write(header, its);
      return write(StoredRecords::header_at(*other), mine);
    }
    default: break;
  }
  // The record at this place in an earlier life of the region.
  elsewhere.sequence -= 1 + below(elsewhere.sequence);
  const Bytes before = whole_record(chunk, elsewhere, earlier);
  if (kind == DiskKind::kStaleRecord) return write(header, before);
  if (kind == DiskKind::kTornRecord) {
    Bytes used(before.begin(), before.begin() + static_cast<long>(table + table_bytes - header));
    return tear(header, used, sim::SimDisk::kSectorBytes);
  }
  if (kind == DiskKind::kTornHeader) {
    const Bytes from =
        below(2) == 0 ? Bytes(kHeaderBytes) : Bytes(before.begin(), before.begin() + kHeaderBytes);
    return tear(header, from, 8);
  }
  const auto payload = before.begin() + disk::kBlockBytes;
  tear(slot, {payload, payload + static_cast<long>(facts.payload_bytes)},
       sim::SimDisk::kSectorBytes);
}

void DiskDamage::of_region(DiskKind kind, std::uint32_t region, std::uint32_t other) {
  const std::uint64_t trailer = StoredRecords::trailer_at(region);
  const disk::Trailer stored = records_.trailer(region);
  const std::size_t entries = std::size_t{disk::entry_blocks(stored.count)} * disk::kBlockBytes;
  switch (kind) {
    case DiskKind::kFooterFlip: return flip(trailer - entries, entries);
    case DiskKind::kFooterBurst: return burst(trailer - entries, entries);
    case DiskKind::kTornFooter:
      return tear(trailer - entries, below(2) == 0 ? Bytes(entries) : read(0, entries), 512);
    case DiskKind::kTrailerFlip: return flip(trailer, kTrailerBytes);
    case DiskKind::kTrailerBurst: return burst(trailer, kTrailerBytes);
    case DiskKind::kSwappedTrailers: {
      Bytes its(disk::kBlockBytes);
      disk::encode_trailer(records_.trailer(other), its);
      return write(trailer, its);
    }
    default: break;
  }
  disk::Trailer stale = stored;
  stale.id.sequence -= 1 + below(stale.id.sequence);
  stale.closed = below(2) == 0;
  stale.entries_checksum ^= 1 + below(1000);  // the entries of another life
  Bytes block(disk::kBlockBytes);
  disk::encode_trailer(stale, block);
  write(trailer, block);
}

bool DiskDamage::of_label(DiskKind kind) {
  const std::uint64_t at = below(2) * disk::kSuperblockBytes;
  if (kind == DiskKind::kStaleLabel) {
    disk::Superblock stale = records_.superblock();
    --stale.serial;
    stale.drops.clear();
    Bytes bytes(disk::kSuperblockBytes);
    disk::encode_superblock(stale, bytes);
    write(at, bytes);
    return true;  // the test sees this by the dropped chunks
  }
  kind == DiskKind::kLabelFlip ? flip(at, kLabelUsedBytes) : burst(at, kLabelUsedBytes);
  disk::Superblock read_back;
  return disk::decode_superblock(records_.bytes().subspan(at, disk::kSuperblockBytes), read_back) !=
         disk::SuperblockFault::kNone;
}

std::uint64_t DiskDamage::of_all(DiskKind kind) {
  if (kind == DiskKind::kBothLabels) {
    for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{disk::kSuperblockBytes}})
      below(2) == 0 ? flip(at, kLabelUsedBytes) : burst(at, kLabelUsedBytes);
    return records_.size();
  }
  const std::uint64_t left = below(records_.size());
  for (std::uint64_t at = left; at < records_.size(); at += 4096) places.push_back(at);
  records_.cut_off(left);
  return left;
}

}  // namespace larder::corruption
