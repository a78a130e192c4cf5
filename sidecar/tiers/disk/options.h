// DiskOptions: everything the disk tier can be told. Errors name a field as the configuration will: disk.path, disk.size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sidecar/tiers/tier.h"

namespace larder::disk {

struct DiskOptions {
  std::string path;               // an existing directory; the tier keeps a folder `larder` of its own in it, 0700
  std::uint64_t size_bytes = 0;   // a hard cap on what that folder takes
  std::string owner = "larderd";  // how another larderd is told whose directory it is
  std::span<std::byte> arena;     // memory that slots are in, registered with io_uring where that is allowed
  // Told of every chunk that is there, from recovery on; what is hidden by a drop is still told of until it is gone. Shared: the tier's
  // thread may outlive the tier.
  std::shared_ptr<tiers::Residents> residents;
  std::uint32_t ttl_s = 0;  // chunks written longer ago are not found; 0: no limit
  bool allow_uring = true;
  bool allow_direct = true;  // false: through the page cache

  std::uint64_t region_bytes = 0;               // 0: a 16th of the size, 256 MiB at most. What a file was made with stays
  std::uint64_t accepted_bytes = 256ULL << 20;  // of puts and gets that have not ended
  std::uint32_t accepted_operations = 1024;
  std::uint64_t read_bytes_in_flight = 16ULL << 20;  // at the device
  std::uint64_t write_bytes_in_flight = 16ULL << 20;

  std::uint64_t stall_ms = 2000;  // a request that takes longer makes the tier degraded
  std::uint64_t retry_ms = 100;   // after a failure; doubles up to 50 times as long
  std::uint64_t check_ms = 1000;  // whether the directory is still there
};

}  // namespace larder::disk
