// Recovery: rebuilds the catalog from the footers of a volume. A region that was never closed is
// scanned, and only records with all bytes matching the root count. A region with a damaged trailer
// is empty.
//
// A scanned region is closed as it is, so a restart evicts about half a region (of sixteen or more,
// on disks of 64 MiB and up) too early. Appending to the region again would mean records of two
// runs in one region, for little gain.
#pragma once

#include <cstdint>
#include <span>

#include "sidecar/tiers/disk/catalog.h"
#include "sidecar/tiers/disk/device.h"
#include "sidecar/tiers/disk/region_table.h"
#include "sidecar/tiers/disk/volume.h"

namespace larder::disk {

struct Recovered {
  std::uint64_t chunks = 0;
  std::uint32_t by_footer = 0, by_scan = 0, damaged = 0;  // regions
};

// Leaves scanned regions in the state closing: their footer is still missing. Fails if the device
// hangs.
Result<Recovered> recover(Device& device, const Volume& volume, std::span<std::byte> scratch,
                          RegionTable& table, Catalog& catalog);

}  // namespace larder::disk
