// StoredRecords: a disk tier's volume full of chunks, most of its regions closed with their footers and one open as after a kill, and
// the tier's way to bring them up again. Nobody repairs what is damaged; restore() makes all as it was. Thread-compatible.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tests/sim/sim_tier.h"

namespace larder::corruption {

class StoredRecords {
 public:
  static constexpr std::uint32_t kVolumeRegions = 24;

  explicit StoredRecords(sim::Random& random);

  struct Stored {
    std::uint64_t number;
    disk::Record record;
    std::uint32_t region;
  };
  const std::vector<Stored>& chunks() const { return chunks_; }
  bool closed(std::uint32_t region) const { return trailer(region).closed; }
  // Of the region's life, as it was stored.
  disk::Trailer trailer(std::uint32_t region) const;
  disk::RegionId id_of(std::uint32_t region) const { return trailer(region).id; }
  const disk::Superblock& superblock() const { return superblock_; }

  // Where things stand on the disk.
  static std::uint64_t region_at(std::uint32_t region) { return disk::kHeadBytes + region * sim::kRegionBytes; }
  static std::uint64_t trailer_at(std::uint32_t region) { return region_at(region + 1) - disk::kBlockBytes; }
  static std::uint64_t header_at(const Stored& chunk) {
    return region_at(chunk.region) + std::uint64_t{chunk.record.block} * disk::kBlockBytes;
  }
  static std::uint64_t slot_at(const Stored& chunk) { return header_at(chunk) + disk::kBlockBytes; }
  std::span<const std::byte> bytes() const { return disk_.bytes(); }  // of the disk as it is now
  std::size_t size() const { return pristine_.size(); }

  // Changes what stands there.
  void write(std::uint64_t offset, std::span<const std::byte> bytes) { disk_.damage(offset, bytes); }
  void cut_off(std::uint64_t bytes) { disk_.resize(bytes); }
  // Everything as it was stored; no tier runs.
  void restore();

  Status start();
  // Brings it up as larderd would and looks at the bytes as an engine does.
  enum class Outcome { kMiss, kRight, kWrong };
  Outcome load(const Stored& chunk);
  // Whether the tier knows of it.
  bool known(const Stored& chunk) const { return tier_->catalog.find(sim::key_of(chunk.number)).has_value(); }
  // Whether the tier knows of a chunk that was dropped before.
  bool any_dropped_known() const;
  // Whether a footer was written anew since the start, as after a region that was read through. Lets the tier do what it has to do.
  bool footer_rewritten(std::uint32_t region);

 private:
  sim::Random& random_;
  disk::DiskOptions options_ = sim::volume_options();
  std::vector<Stored> chunks_;
  disk::Superblock superblock_;
  sim::SimDisk pristine_, disk_;
  std::vector<bool> rewritten_;
  std::unique_ptr<sim::SimTier> tier_;
};

}  // namespace larder::corruption
