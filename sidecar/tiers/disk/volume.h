// Volume: the directory and the one file of a disk tier: found or made, locked, of its full size, its superblock read. See FORMAT.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sidecar/tiers/disk/device.h"
#include "sidecar/tiers/disk/env.h"
#include "sidecar/tiers/disk/format.h"
#include "sidecar/tiers/disk/options.h"

namespace larder::disk {

inline constexpr std::uint32_t kLeastRegions = 4;
inline constexpr std::size_t kScratchBytes = 1 << 20;
static_assert(kScratchBytes >= kHeadBytes);

struct Volume {
  Fd file;
  std::string file_path;
  FileFacts file_facts;
  std::uint64_t path_device = 0;  // of the directory that was configured
  Superblock superblock;
  std::size_t whole_label = 1;  // of the two copies in the file, one that is surely whole: the other is written over first
  std::uint32_t regions = 0;
  bool direct = false;
  // For the log, where the volume is not as it might be. `kind`: a fixed name.
  struct Note {
    std::string_view kind;
    std::string text;
  };
  std::vector<Note> notes;

  std::uint64_t offset(std::uint32_t region, std::uint32_t block) const {
    return kHeadBytes + region * superblock.region_bytes + std::uint64_t{block} * kBlockBytes;
  }
  std::uint32_t region_blocks() const { return static_cast<std::uint32_t>(superblock.region_bytes / kBlockBytes); }
  std::uint64_t bytes() const { return kHeadBytes + regions * superblock.region_bytes; }
};

// The longest slot that a region of so many bytes holds.
std::uint64_t most_slot_bytes(std::uint64_t region_bytes);
// kOutOfRange: why no region of a disk of this size holds such a slot, and the size that does.
Status too_large_for_a_region(const DiskOptions& options, std::uint64_t slot_bytes);

// Errors name the configuration's field. The scratch memory (kScratchBytes) outlives the device. Nothing is left locked after an
// error.
// `on_device`: the one that the directory was on when it was first opened (0: any); another is refused before anything is made on it, as
// where a volume is not mounted and its mount point is a folder of the root disk.
Result<Volume> open_volume(Env& env, Device& device, const DiskOptions& options, std::span<std::byte> scratch,
                           std::uint64_t on_device);

}  // namespace larder::disk
