// RegionScan: reads a region without a footer through a window, and finds the completely written
// records. Used in one thread: the scan and its window belong to the caller.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sidecar/tiers/disk/device.h"
#include "sidecar/tiers/disk/volume.h"

namespace larder::disk {

class RegionScan {
 public:
  // `window` outlives the device.
  RegionScan(Device& device, const Volume& volume, const RegionId& id, std::span<std::byte> window)
      : device_(device), volume_(volume), id_(id), window_(window) {}

  // The records in the order of their blocks. Fails if the device fails.
  Result<std::vector<Record>> records();

 private:
  // The bytes at `offset` of the region; null if the read fails. Valid until the next call.
  const std::byte* bytes(std::uint64_t offset, std::size_t size);
  bool verified(const Record& record);

  Device& device_;
  const Volume& volume_;
  const RegionId id_;
  std::span<std::byte> window_;
  std::uint64_t start_ = 0, end_ = 0;  // the part of the region in the window
  Status status_;
};

}  // namespace larder::disk
