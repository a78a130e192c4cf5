// DiskOptions: all options of the disk tier. Errors name a field as in the configuration:
// disk.path, disk.size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sidecar/tiers/tier.h"

namespace larder::disk {

struct DiskOptions {
  std::string path;  // an existing directory; the tier makes a folder `larder` there, mode 0700
  std::uint64_t size_bytes = 0;  // a hard cap on that folder
  // The name in the error of another larderd that finds the directory in use.
  std::string owner = "larderd";
  std::span<std::byte> arena;  // the memory of slots, registered with io_uring if allowed
  // Hears of every chunk from recovery on. A chunk that a drop hides is listed until it is erased.
  // Shared: the thread of the tier may outlive the tier.
  std::shared_ptr<tiers::Residents> residents;
  std::uint32_t ttl_s = 0;  // older chunks are not found; 0: no limit
  bool allow_uring = true;
  bool allow_direct = true;  // false: through the page cache

  // 0: a 16th of the size, at most 256 MiB. An existing file keeps its value
  std::uint64_t region_bytes = 0;
  std::uint64_t accepted_bytes = 256ULL << 20;  // of puts and gets in progress
  std::uint32_t accepted_operations = 1024;
  std::uint64_t read_bytes_in_flight = 16ULL << 20;  // at the device
  std::uint64_t write_bytes_in_flight = 16ULL << 20;

  std::uint64_t stall_ms = 2000;  // a longer request makes the tier degraded
  std::uint64_t retry_ms = 100;   // after a failure; doubles up to 50 times
  std::uint64_t check_ms = 1000;  // between checks whether the directory still exists
};

}  // namespace larder::disk
