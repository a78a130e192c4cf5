// GhostTable: remembers chunks that were evicted: when a chunk was used last, and how often.
//
// A bucket is one cache line of kWays ghosts, and the oldest ghost of a bucket makes room. A name
// is compared by 16 bits: one in about 8,000 new chunks is taken for a ghost. A page is charged at
// its first write. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "sidecar/store/lazy_array.h"

namespace larder::store {

struct Ghost {
  std::uint64_t tag : 16;
  std::uint64_t uses : 5;     // 0: no ghost
  std::uint64_t origin : 2;   // see Adaptive
  std::uint64_t left_at : 6;  // the step of its age at the eviction: see ReuseModel
  std::uint64_t stamp : 35;   // the last use; the low bits of a clock
};
static_assert(sizeof(Ghost) == 8);

class GhostTable {
 public:
  static constexpr std::uint64_t kMostAge = (1ULL << 35) - 1;

  explicit GhostTable(std::size_t ghosts)
      : buckets_(ghosts / kWays + 1), ghosts_(buckets_ * kWays) {}

  // Takes the ghost of a name out of the table.
  std::optional<Ghost> take(std::uint64_t name);
  // Adds a ghost, and sets its tag. Returns the ghost that made room. `now`: the clock.
  std::optional<Ghost> put(std::uint64_t name, Ghost ghost, std::uint64_t now);
  static std::uint64_t age(const Ghost& ghost, std::uint64_t now) {
    return (now - ghost.stamp) & kMostAge;
  }
  std::size_t bytes() const { return buckets_ * kWays * sizeof(Ghost); }

 private:
  static constexpr std::size_t kWays = 8;
  static std::uint64_t mixed(std::uint64_t name);

  std::size_t buckets_;
  LazyArray<Ghost> ghosts_;
};

}  // namespace larder::store
