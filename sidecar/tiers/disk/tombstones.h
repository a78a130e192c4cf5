// Tombstones: overwrites the headers of removed records, and of failed puts whose bytes may be on
// the disk, with graves, so that the next larderd does not find the records. Owned by the thread of
// the tier.
//
// Tombstones are kept while the file is away. A region that was opened again needs no grave; while
// a region is being opened its old records may still stay. A failed grave is written again once a
// region could be opened, a bounded number of times, because each failed attempt makes the tier
// degraded.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "sidecar/tiers/disk/health_probe.h"
#include "sidecar/tiers/disk/region_file.h"

namespace larder::disk {

class Tombstones {
 public:
  // Both outlive this object.
  Tombstones(RegionFile& file, HealthProbe& probe) : file_(file), probe_(probe) {}
  Tombstones(const Tombstones&) = delete;

  // Takes a record of an open region, and writes the grave at once if the device has room.
  void bury(std::uint32_t number, const Record& record);
  // Writes as many graves as the device has room for.
  void write();
  // Removes buried records from the catalog of a file that is back.
  void take_out();
  bool empty() const { return tombstones_.empty(); }

 private:
  struct Tombstone {
    RegionId id;
    Record record;
    std::uint32_t failures = 0;
  };

  RegionFile& file_;
  HealthProbe& probe_;
  std::optional<Volume>& volume_ = file_.volume();
  RegionTable& table_ = file_.table();
  Health& health_ = file_.health();
  Device& device_ = file_.device();
  std::deque<Tombstone> tombstones_;
};

}  // namespace larder::disk
