// Disks of pools, for tests.
#pragma once

#include "operator/api/cache_pool.h"

namespace larder::test {

inline api::DiskSpec disk_of(std::uint64_t gib, api::DiskVolume volume,
                             const std::string& storage_class = "") {
  api::DiskSpec disk;
  disk.size_bytes = gib << 30;
  disk.size = std::to_string(gib) + "Gi";
  disk.volume = volume;
  disk.storage_class = storage_class;
  return disk;
}

}  // namespace larder::test
