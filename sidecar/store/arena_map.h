// ArenaMap: what every touched page of the arena belongs to: a free span or an extent. Numbers only; the unit is a page of
// protocol::kSlotAlignBytes.
//
// The pieces cover the touched part without gap or overlap, and no two free ones are neighbours. Owned by the store's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace larder::store {

struct PageRange {
  std::uint32_t begin = 0, end = 0;
  bool overlaps(std::uint32_t start, std::uint32_t pages) const { return start < end && begin < start + pages; }
};

class ArenaMap {
 public:
  static constexpr std::uint32_t kNoExtent = 0xffffffff;
  struct Piece {
    std::uint32_t pages;
    std::uint32_t extent;  // kNoExtent: a free span
  };

  // So many pages more are there, behind the others, free.
  void grow(std::uint32_t pages);
  // The smallest free span of at least so many pages that does not overlap `avoid`.
  std::optional<std::uint32_t> best_fit(std::uint32_t pages, const PageRange& avoid) const;
  // The first pages of a free span become an extent. REQUIRES: a free span of at least so many pages starts there.
  void cut(std::uint32_t start, std::uint32_t pages, std::uint32_t extent);
  // The same anywhere inside a free span. REQUIRES: all of these pages are free.
  void carve(std::uint32_t start, std::uint32_t pages, std::uint32_t extent);
  // An extent keeps its first pages; 0 ends it. What it leaves is free and grows together with free neighbours.
  void shorten(std::uint32_t start, std::uint32_t pages);

  std::uint32_t pages_at(std::uint32_t start) const { return pieces_.at(start).pages; }
  std::uint32_t free_pages() const { return free_pages_; }
  std::uint32_t end() const { return end_; }
  // By address.
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
