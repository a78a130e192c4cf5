// Recovery: from a volume's footers back to the catalog. A region that was never closed is read through, and only records whose
// every byte is as its root says are taken; a region whose trailer is damaged is empty.
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

// Regions that were read through are left closing: their footer is still to be written. Fails where the device does.
Result<Recovered> recover(Device& device, const Volume& volume, std::span<std::byte> scratch, RegionTable& table,
                          Catalog& catalog);

}  // namespace larder::disk
