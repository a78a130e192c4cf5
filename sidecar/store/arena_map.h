// ArenaMap: assigns every touched page of the arena to a free span or an extent. Only numbers; the
// unit is a page of protocol::kSlotAlignBytes.
//
// The pieces cover the touched part without gap or overlap, and no two free spans are neighbours.
// Owned by the thread of the store.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace larder::store {

struct PageRange {
  std::uint32_t begin = 0, end = 0;
  bool overlaps(std::uint32_t start, std::uint32_t pages) const {
    return start < end && begin < start + pages;
  }
};

class ArenaMap {
 public:
  static constexpr std::uint32_t kNoExtent = 0xffffffff;
  struct Piece {
    std::uint32_t pages;
    std::uint32_t extent;  // kNoExtent: a free span
  };

  // Adds `pages` free pages at the end.
  void grow(std::uint32_t pages);
  // The smallest free span of at least `pages` that does not overlap `avoid`.
  std::optional<std::uint32_t> best_fit(std::uint32_t pages, const PageRange& avoid) const;
  // Makes an extent of the first pages of a free span. REQUIRES: a free span of at least `pages`
  // begins at `start`.
  void cut(std::uint32_t start, std::uint32_t pages, std::uint32_t extent);
  // The same anywhere inside a free span. REQUIRES: all these pages are free.
  void carve(std::uint32_t start, std::uint32_t pages, std::uint32_t extent);
  // Cuts an extent to its first `pages`; 0 ends it. The rest is free and merges with free
  // neighbours.
  void shorten(std::uint32_t start, std::uint32_t pages);

  std::uint32_t pages_at(std::uint32_t start) const { return pieces_.at(start).pages; }
  std::uint32_t free_pages() const { return free_pages_; }
  std::uint32_t end() const { return end_; }
  // The pieces by address.
  const std::map<std::uint32_t, Piece>& pieces() const { return pieces_; }

 private:
  void add_free(std::uint32_t start, std::uint32_t pages);
  void remove_free(std::map<std::uint32_t, Piece>::iterator piece);

  std::map<std::uint32_t, Piece> pieces_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> free_by_size_;  // pages, start
  std::uint32_t free_pages_ = 0;
  std::uint32_t end_ = 0;
};

}  // namespace larder::store
