// BounceRegion: the memory that larderd shares with one life of a plug-in, cut into pieces, one for
// each open call. Owned by the thread of the tier.
//
// The plug-in may write anywhere in the region at any time: readers copy a value before they check
// the value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "shim/base/fd.h"
#include "shim/base/status.h"

namespace larder::plugin {

struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // whole pages
};

class BounceRegion {
 public:
  // A sealed memfd: the plug-in cannot resize the region under larderd.
  static Result<BounceRegion> create(std::uint64_t bytes);
  BounceRegion(BounceRegion&&) = default;
  // The move target gives its memory back first.
  BounceRegion& operator=(BounceRegion&&) = delete;
  // Frees the pages at once, also if the plug-in lives on and keeps its mapping.
  ~BounceRegion();

  // Empty: no free run of so many bytes.
  std::optional<Piece> take(std::uint64_t bytes);
  void give_back(const Piece& piece);
  std::span<std::byte> at(const Piece& piece) {
    return {mapping_.data() + piece.offset, piece.bytes};
  }
  const Fd& fd() const { return fd_; }

 private:
  BounceRegion() = default;

  Fd fd_;
  Mapping mapping_;
  std::map<std::uint64_t, std::uint64_t> free_;  // bytes by offset; neighbours are merged
};

}  // namespace larder::plugin
