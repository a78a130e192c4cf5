// Sizes of containers and volumes, by the rule for charging shared memory:
//
//   memory.size < sizeLimit of the memory volume < memory limit of larderd's container
//
// The volume holds arena, index and locks. larderd touches the whole arena and is charged for it.
// Above the sizeLimit larderd gets ENOSPC; above its limit the kernel would kill larderd, so the
// sizeLimit comes first.
#pragma once

#include <cstdint>
#include <string>

#include "operator/api/cache_pool.h"

namespace larder::desired {

inline constexpr std::uint64_t kRunBytes = 4ULL << 20;  // sockets need no bytes
inline constexpr std::uint64_t kPayloadBytes = 128ULL
                                               << 20;  // the Python package with liblarder.so

// In the form of Kubernetes: a whole number of the largest unit that fits.
std::string quantity(std::uint64_t bytes);

std::uint64_t memory_volume_bytes(const api::PoolSpec& spec);
// disk.size and room for file system, folder and lock.
std::uint64_t disk_volume_bytes(const api::DiskSpec& disk);

}  // namespace larder::desired
