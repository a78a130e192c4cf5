// IndexFile: the file of the index region, which larderd writes and engines map read-only.
//
// Owned by the thread of the loop.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/fd.h"

namespace larder::memory {

// The slot size for which index and residency filter are sized: chunks of real models are far
// larger.
inline constexpr std::uint64_t kSmallestUsualSlot = 64 << 10;

// Owns its descriptor and its mapping.
struct IndexFile {
  Fd read_only;
  Mapping mapping;
  std::string path;

  static Result<IndexFile> create(const std::string& path, std::uint64_t size_bytes);
};

}  // namespace larder::memory
