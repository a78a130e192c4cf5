// Volume: the directory and the file of a disk tier: found or made, locked, of full size, with its
// superblock. See FORMAT.md.
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
  std::uint64_t path_device = 0;  // the device of the configured directory
  Superblock superblock;
  // A copy of the superblock that is surely intact; the other copy is overwritten first.
  std::size_t whole_label = 1;
  std::uint32_t regions = 0;
  bool direct = false;
  // For the log: a fault or a fallback. `kind`: a fixed name.
  struct Note {
    std::string_view kind;
    std::string text;
  };
  std::vector<Note> notes;

  std::uint64_t offset(std::uint32_t region, std::uint32_t block) const {
    return kHeadBytes + region * superblock.region_bytes + std::uint64_t{block} * kBlockBytes;
  }
  std::uint32_t region_blocks() const {
    return static_cast<std::uint32_t>(superblock.region_bytes / kBlockBytes);
  }
  std::uint64_t bytes() const { return kHeadBytes + regions * superblock.region_bytes; }
};

// The largest slot that fits into a region of so many bytes.
std::uint64_t most_slot_bytes(std::uint64_t region_bytes);
// kOutOfRange: no region of a disk of this size can hold such a slot; the error gives the necessary
// size.
Status too_large_for_a_region(const DiskOptions& options, std::uint64_t slot_bytes);

// Errors name the field of the configuration, and leave no lock. The scratch memory (kScratchBytes)
// outlives the device. `on_device`: the device of the directory at the first start (0: any device).
// Another device is refused before a file is made there: after an unmount, for example, the mount
// point is a folder of the root disk.
Result<Volume> open_volume(Env& env, Device& device, const DiskOptions& options,
                           std::span<std::byte> scratch, std::uint64_t on_device);

}  // namespace larder::disk
