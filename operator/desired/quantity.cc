#include "operator/desired/quantity.h"

#include <array>
#include <string_view>

namespace larder::desired {
namespace {

// Room for two indexes, since a restarted larderd makes the new index beside the old one. An index
// has 21 MiB up to an arena of 16 GiB, and a 650th of a larger arena.
constexpr std::uint64_t kFilesBytes = 64ULL << 20, kFilesShare = 256;
constexpr std::uint64_t kDiskSpare = 64ULL << 20, kDiskShare = 64;

constexpr std::uint64_t whole_mib(std::uint64_t bytes) {
  return (bytes + (1ULL << 20) - 1) >> 20 << 20;
}

}  // namespace

// The canonical form of Kubernetes: the largest unit without a fraction. The API server returns the
// same text, so no comparison differs.
std::string quantity(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits{"Ki", "Mi", "Gi", "Ti"};
  std::size_t unit = 0;
  while (unit < kUnits.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + (unit == 0 ? "" : std::string(kUnits[unit - 1]));
}

// Huge pages have their own volume; the index and other files stay in normal memory.
std::uint64_t memory_volume_bytes(const api::PoolSpec& spec) {
  const std::uint64_t arena =
      spec.memory.hugepages == api::Hugepages::kNone ? spec.memory.size_bytes : 0;
  return whole_mib(arena + kFilesBytes + spec.memory.size_bytes / kFilesShare);
}

std::uint64_t disk_volume_bytes(const api::DiskSpec& disk) {
  return whole_mib(disk.size_bytes + kDiskSpare + disk.size_bytes / kDiskShare);
}

}  // namespace larder::desired
