// RegionFile: the open file of a disk tier with its regions, catalog and device, and the health of
// all. The parts of DiskEngine share one RegionFile, each over references to what the part needs.
// Owned by the thread of the tier.
//
// The volume is absent until the first start and while the directory is away. References to the
// volume and the table stay valid; references to a Region do not outlive a reopening.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/disk/catalog.h"
#include "sidecar/tiers/disk/device.h"
#include "sidecar/tiers/disk/env.h"
#include "sidecar/tiers/disk/health.h"
#include "sidecar/tiers/disk/options.h"
#include "sidecar/tiers/disk/region_table.h"
#include "sidecar/tiers/disk/time_to_live.h"
#include "sidecar/tiers/disk/volume.h"

namespace larder::disk {

class RegionFile {
 public:
  // All arguments outlive this object.
  RegionFile(Env& env, const base::Clock& clock, const DiskOptions& options, Catalog& catalog);
  RegionFile(const RegionFile&) = delete;

  Env& env() { return env_; }
  const base::Clock& clock() const { return clock_; }
  const DiskOptions& options() const { return options_; }
  Catalog& catalog() { return catalog_; }
  Health& health() { return health_; }
  const TimeToLive& ttl() const { return ttl_; }
  tiers::TierCounters& counters() { return counters_; }
  Device& device() { return device_; }
  std::optional<Volume>& volume() { return volume_; }
  RegionTable& table() { return table_; }
  // Memory for open_volume() and recover(), kScratchBytes.
  std::span<std::byte> scratch() const { return scratch_.span(); }
  // Memory for the superblock that is being written.
  std::span<std::byte> superblock_bytes() const { return superblock_bytes_.span(); }
  // The access to the device, for people, and why io_uring is not used; empty with io_uring.
  const std::string& mode() const { return mode_; }
  const std::string& queue_fallback() const { return queue_fallback_; }

  // Starts a request on the open file; a later turn of the device calls `then`.
  void start_io(IoRequest::Kind kind, std::uint64_t offset, std::span<std::byte> bytes,
                Device::Then then);
  // Whether the region is still of that volume and sequence. REQUIRES: an open volume, as id_of().
  bool stands(const RegionId& id) const {
    return id.region < table_.count() && volume_->superblock.volume == id.volume &&
           table_[id.region].sequence == id.sequence;
  }
  RegionId id_of(std::uint32_t number) const {
    return {volume_->superblock.volume, table_[number].sequence, number};
  }
  // `kind`: a fixed name; the rate of log lines is bounded by kind.
  void say(std::string_view kind, const std::string& text) const;

 private:
  Env& env_;
  const base::Clock& clock_;
  const DiskOptions& options_;
  Catalog& catalog_;
  Health health_;
  TimeToLive ttl_;
  tiers::TierCounters counters_;
  // Declared before device_, which may write here until its end. No callback runs during that end.
  AlignedBytes scratch_{kScratchBytes};
  AlignedBytes superblock_bytes_{kSuperblockBytes};
  std::string queue_fallback_, mode_;
  Device device_;
  std::optional<Volume> volume_;
  RegionTable table_{0, 0};
};

}  // namespace larder::disk
