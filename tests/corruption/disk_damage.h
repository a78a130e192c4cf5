// DiskDamage: corruptions of a volume of the disk tier, and what has to come of them. Thread-compatible.
#pragma once

#include <string_view>
#include <vector>

#include "tests/corruption/stored_records.h"

namespace larder::corruption {

enum class DiskKind {
  // of one record, under a tier that runs or before it starts
  kHeaderFlip,   // one bit
  kHeaderBurst,  // up to 256 bytes
  kTornHeader,   // its first bytes are another record's, an earlier life's, or zero
  kPayloadFlip,
  kPayloadBurst,
  kTornPayload,  // part of it is of an earlier generation
  kTableFlip,    // of the digest table
  kTableBurst,
  kTornRecord,       // some sectors of it are of the record that stood there in an earlier life of the region
  kStaleRecord,      // that record wholly, sound in itself
  kStaleGeneration,  // a sound record of this life, place and key, but of an earlier generation than was stored last
  kOtherVolume,      // a sound record of another volume
  kSwappedRecords,   // with another one, wholly
  // of what a start reads
  kFooterFlip,
  kFooterBurst,
  kTornFooter,
  kTrailerFlip,
  kTrailerBurst,
  kStaleTrailer,     // of an earlier life of the region, sound in itself
  kSwappedTrailers,  // that of another region
  kLabelFlip,        // of one of the two
  kLabelBurst,
  kStaleLabel,  // one of the two is older, and knows of no drop
  // of all
  kBothLabels,
  kTruncated,
  kCount
};
inline constexpr auto kDiskKinds = static_cast<std::size_t>(DiskKind::kCount);
inline constexpr auto kFirstRegionKind = DiskKind::kFooterFlip, kFirstLabelKind = DiskKind::kLabelFlip,
                      kFirstWholeKind = DiskKind::kBothLabels;
std::string_view name_of(DiskKind kind);

class DiskDamage {
 public:
  DiskDamage(StoredRecords& records, sim::Random& random) : records_(records), random_(random) {}

  // Each changes at least one byte that something depends on. `other` is touched by kSwappedRecords, which needs one of the same size.
  void of_record(DiskKind kind, const StoredRecords::Stored& chunk, const StoredRecords::Stored* other);
  void of_region(DiskKind kind, std::uint32_t region, std::uint32_t other);
  // Returns whether the damaged superblock is refused.
  bool of_label(DiskKind kind);
  // Returns from where on the file is gone; its size where it was not cut off.
  std::uint64_t of_all(DiskKind kind);

  // Bytes of the volume that were changed since the last clear.
  std::vector<std::uint64_t> places;

 private:
  using Bytes = std::vector<std::byte>;
  std::uint64_t below(std::uint64_t limit) { return sim::below(random_, limit); }
  Bytes read(std::uint64_t at, std::size_t bytes) const;
  void write(std::uint64_t at, std::span<const std::byte> bytes);
  void flip(std::uint64_t at, std::size_t bytes);
  void burst(std::uint64_t at, std::size_t bytes);
  void tear(std::uint64_t at, const Bytes& from, std::size_t piece);
  Bytes whole_record(const StoredRecords::Stored& chunk, const disk::RegionId& id, std::uint64_t generation) const;

  StoredRecords& records_;
  sim::Random& random_;
};

}  // namespace larder::corruption
