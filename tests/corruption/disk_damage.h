// DiskDamage: corruptions of a volume of the disk tier. Thread-compatible.
#pragma once

#include <string_view>
#include <vector>

#include "tests/corruption/stored_records.h"

namespace larder::corruption {

enum class DiskKind {
  // Of one record, under a running tier or before a start.
  kHeaderFlip,   // one bit
  kHeaderBurst,  // up to 256 bytes
  kTornHeader,   // the first bytes come from another record or an earlier life, or are zero
  kPayloadFlip,
  kPayloadBurst,
  kTornPayload,  // a part comes from an earlier generation
  kTableFlip,    // of the digest table
  kTableBurst,
  // some sectors come from the record at this place in an earlier life of the region
  kTornRecord,
  kStaleRecord,  // the whole record of the earlier life, a valid one
  // a valid record of this life, place and key, of an earlier generation than the last one
  kStaleGeneration,
  kOtherVolume,     // a valid record of another volume
  kSwappedRecords,  // another whole record
  // Of the blocks that a start reads.
  kFooterFlip,
  kFooterBurst,
  kTornFooter,
  kTrailerFlip,
  kTrailerBurst,
  kStaleTrailer,     // a valid trailer of an earlier life of the region
  kSwappedTrailers,  // the trailer of another region
  kLabelFlip,        // one of the two labels
  kLabelBurst,
  kStaleLabel,  // one of the two labels is older, and has no drop
  // Of the whole volume.
  kBothLabels,
  kTruncated,
  kCount
};
inline constexpr auto kDiskKinds = static_cast<std::size_t>(DiskKind::kCount);
inline constexpr auto kFirstRegionKind = DiskKind::kFooterFlip,
                      kFirstLabelKind = DiskKind::kLabelFlip,
                      kFirstWholeKind = DiskKind::kBothLabels;
std::string_view name_of(DiskKind kind);

class DiskDamage {
 public:
  DiskDamage(StoredRecords& records, sim::Random& random) : records_(records), random_(random) {}

  // Each changes at least one byte on which a load or a start depends. kSwappedRecords changes
  // `other` too, which must have the same size.
  void of_record(DiskKind kind, const StoredRecords::Stored& chunk,
                 const StoredRecords::Stored* other);
  void of_region(DiskKind kind, std::uint32_t region, std::uint32_t other);
  // Returns whether the damaged superblock is refused.
  bool of_label(DiskKind kind);
  // Returns the size of the file that is left.
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
  Bytes whole_record(const StoredRecords::Stored& chunk, const disk::RegionId& id,
                     std::uint64_t generation) const;

  StoredRecords& records_;
  sim::Random& random_;
};

}  // namespace larder::corruption
