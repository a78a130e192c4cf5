#include "sidecar/store/arena_map.h"

#include <iterator>

namespace larder::store {

void ArenaMap::grow(std::uint32_t pages) {
  if (pages == 0) return;
  const std::uint32_t start = end_;
  end_ += pages;
  add_free(start, pages);
}

std::optional<std::uint32_t> ArenaMap::best_fit(std::uint32_t pages, const PageRange& avoid) const {
  for (auto span = free_by_size_.lower_bound({pages, 0}); span != free_by_size_.end(); ++span)
    // A span inside the window that is being drained stays free: an extent cut there would end the
    // drain's purpose, one long run.
    if (!avoid.overlaps(span->second, span->first)) return span->second;
  return std::nullopt;
}

void ArenaMap::cut(std::uint32_t start, std::uint32_t pages, std::uint32_t extent) {
  // Every page belongs to exactly one free span or extent, before and after each call here
  // (slot_arena_test.cc checks).
  const auto span = pieces_.find(start);
  const std::uint32_t rest = span->second.pages - pages;
  remove_free(span);
  pieces_.emplace(start, Piece{pages, extent});
  if (rest != 0) add_free(start + pages, rest);
}

void ArenaMap::carve(std::uint32_t start, std::uint32_t pages, std::uint32_t extent) {
  const auto span = std::prev(pieces_.upper_bound(start));
  const std::uint32_t before = start - span->first;
  if (before != 0) {
    const Piece whole = span->second;
    free_by_size_.erase({whole.pages, span->first});
    span->second.pages = before;
    free_by_size_.emplace(before, span->first);
    pieces_.emplace(start, Piece{whole.pages - before, kNoExtent});
    free_by_size_.emplace(whole.pages - before, start);
  }
  cut(start, pages, extent);
}

void ArenaMap::shorten(std::uint32_t start, std::uint32_t pages) {
  const auto piece = pieces_.find(start);
  const std::uint32_t left = piece->second.pages - pages;
  piece->second.pages = pages;
  if (pages == 0) pieces_.erase(piece);
  if (left != 0) add_free(start + pages, left);
}

void ArenaMap::add_free(std::uint32_t start, std::uint32_t pages) {
  free_pages_ += pages;
  // Neighbouring spans are joined at once, so two free spans never touch. best_fit() thus sees the
  // true length of each gap.
  auto next = pieces_.lower_bound(start);
  if (next != pieces_.end() && next->second.extent == kNoExtent) {
    pages += next->second.pages;
    free_by_size_.erase({next->second.pages, next->first});
    next = pieces_.erase(next);
  }
  if (next != pieces_.begin()) {
    const auto before = std::prev(next);
    if (before->second.extent == kNoExtent) {
      free_by_size_.erase({before->second.pages, before->first});
      start = before->first;
      pages += before->second.pages;
      pieces_.erase(before);
    }
  }
  pieces_.emplace(start, Piece{pages, kNoExtent});
  free_by_size_.emplace(pages, start);
}

void ArenaMap::remove_free(std::map<std::uint32_t, Piece>::iterator piece) {
  free_pages_ -= piece->second.pages;
  free_by_size_.erase({piece->second.pages, piece->first});
  pieces_.erase(piece);
}

}  // namespace larder::store
