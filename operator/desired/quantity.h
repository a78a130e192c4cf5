// Sizes of what a pool's containers and volumes are given, by the rule of who is charged for shared memory:
//
//   memory.size < sizeLimit of the memory volume (index and locks stand beside the arena) < limit of larderd's container.
//
// larderd touches the whole arena itself and pays for it; past the sizeLimit it sees ENOSPC, past its own limit it would be killed.
#pragma once

#include <cstdint>
#include <string>

#include "operator/api/cache_pool.h"

namespace larder::desired {

inline constexpr std::uint64_t kRunBytes = 4ULL << 20;        // sockets take none of it
inline constexpr std::uint64_t kPayloadBytes = 128ULL << 20;  // the Python package with liblarder.so

// As Kubernetes writes it: in the largest unit that it is whole in.
std::string quantity(std::uint64_t bytes);

std::uint64_t memory_volume_bytes(const api::PoolSpec& spec);
// Beside what larderd takes for itself: file system, folder, lock.
std::uint64_t disk_volume_bytes(const api::DiskSpec& disk);

}  // namespace larder::desired
