// StoredRecords: a volume of the disk tier full of chunks, and the tier's path to read them. Most
// regions are closed with footers, one is open as after a kill. Damage is not repaired; restore()
// restores the whole volume. Thread-compatible.
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
  // The trailer of the region, as stored.
  disk::Trailer trailer(std::uint32_t region) const;
  disk::RegionId id_of(std::uint32_t region) const { return trailer(region).id; }
  const disk::Superblock& superblock() const { return superblock_; }

  // Offsets on the disk.
  static std::uint64_t region_at(std::uint32_t region) {
    return disk::kHeadBytes + region * sim::kRegionBytes;
  }
  static std::uint64_t trailer_at(std::uint32_t region) {
    return region_at(region + 1) - disk::kBlockBytes;
  }
  static std::uint64_t header_at(const Stored& chunk) {
    return region_at(chunk.region) + std::uint64_t{chunk.record.block} * disk::kBlockBytes;
  }
  static std::uint64_t slot_at(const Stored& chunk) { return header_at(chunk) + disk::kBlockBytes; }
  std::span<const std::byte> bytes() const { return disk_.bytes(); }  // of the damaged disk
  std::size_t size() const { return pristine_.size(); }

  // Changes bytes of the volume.
  void write(std::uint64_t offset, std::span<const std::byte> bytes) {
    disk_.damage(offset, bytes);
  }
  void cut_off(std::uint64_t bytes) { disk_.resize(bytes); }
  // Restores the volume as stored; no tier runs afterwards.
  void restore();

  Status start();
  // Reads the chunk as larderd does, and verifies the bytes as an engine does.
  enum class Outcome { kMiss, kRight, kWrong };
  Outcome load(const Stored& chunk);
  // Whether the tier knows the chunk.
  bool known(const Stored& chunk) const {
    return tier_->catalog.find(sim::key_of(chunk.number)).has_value();
  }
  // Whether the tier knows any dropped chunk.
  bool any_dropped_known() const;
  // Whether the tier has rewritten the region's footer since the start, as after a scan of the
  // region. Gives the tier time for the rewrite.
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
