#include "sidecar/store/ghost_table.h"

namespace larder::store {

// Names need not be uniform.
std::uint64_t GhostTable::mixed(std::uint64_t name) {
  name = (name ^ (name >> 30)) * 0xbf58476d1ce4e5b9ULL;
  name = (name ^ (name >> 27)) * 0x94d049bb133111ebULL;
  return name ^ (name >> 31);
}

std::optional<Ghost> GhostTable::take(std::uint64_t name) {
  const std::uint64_t hash = mixed(name);
  const std::size_t first = (hash >> 16) % buckets_ * kWays;
  for (std::size_t at = first; at < first + kWays; ++at) {
    if (ghosts_[at].uses == 0 || ghosts_[at].tag != (hash & 0xffff)) continue;
    const Ghost found = ghosts_[at];
    ghosts_[at].uses = 0;
    return found;
  }
  return std::nullopt;
}

std::optional<Ghost> GhostTable::put(std::uint64_t name, Ghost ghost, std::uint64_t now) {
  const std::uint64_t hash = mixed(name);
  ghost.tag = hash & 0xffff;
  const std::size_t first = (hash >> 16) % buckets_ * kWays;
  std::size_t to = first;
  for (std::size_t at = first; at < first + kWays && ghosts_[to].uses != 0; ++at)
    if (ghosts_[at].uses == 0 || age(ghosts_[at], now) > age(ghosts_[to], now)) to = at;
  const Ghost gone = ghosts_[to];
  ghosts_[to] = ghost;
  if (gone.uses == 0) return std::nullopt;
  return gone;
}

}  // namespace larder::store
