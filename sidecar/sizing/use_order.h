// UseOrder: things in the order of their last use, and the bytes of all things used later than a
// given thing.
//
// A Fenwick tree over places in time. When all places are used, the remaining things move together.
// O(log n) per call; memory for `most` things from the start. Thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace larder::sizing {

class UseOrder {
 public:
  static constexpr std::uint64_t kFree = 0;

  explicit UseOrder(std::uint32_t most) : things_(2ULL * most, kFree), tree_(2ULL * most + 1, 0) {}

  // Returns the place of `thing`. Calls `moved(thing, place)` for each thing that gets another
  // place.
  // REQUIRES: `thing` is not kFree and not in the order; the order has fewer than `most` things.
  template <typename Moved>
  std::uint32_t append(std::uint64_t thing, std::uint64_t bytes, const Moved& moved) {
    if (next_ == things_.size()) close_ranks(moved);
    things_[next_] = thing;
    add(next_, bytes);
    total_ += bytes;
    return next_++;
  }
  void erase(std::uint32_t place, std::uint64_t bytes) {
    things_[place] = kFree;
    add(place, 0 - bytes);
    total_ -= bytes;
  }
  // The bytes of all things used later than the thing at `place`.
  std::uint64_t bytes_after(std::uint32_t place) const { return total_ - prefix(place + 1); }
  std::uint64_t total_bytes() const { return total_; }
  // The least recently used thing. REQUIRES: the order is not empty.
  std::uint64_t oldest() {
    while (things_[first_] == kFree) ++first_;
    return things_[first_];
  }

 private:
  void add(std::uint32_t place, std::uint64_t bytes) {
    for (std::size_t i = place + 1; i < tree_.size(); i += i & (0 - i)) tree_[i] += bytes;
  }
  // The bytes of the first `count` places.
  std::uint64_t prefix(std::uint32_t count) const {
    std::uint64_t sum = 0;
    for (std::size_t i = count; i != 0; i &= i - 1) sum += tree_[i];
    return sum;
  }
  template <typename Moved>
  void close_ranks(const Moved& moved) {
    std::vector<std::uint64_t> bytes(things_.size());
    for (std::uint32_t place = 0; place < things_.size(); ++place)
      bytes[place] = prefix(place + 1) - prefix(place);
    std::fill(tree_.begin(), tree_.end(), 0);
    std::uint32_t to = 0;
    for (std::uint32_t from = 0; from < things_.size(); ++from) {
      const std::uint64_t thing = things_[from];
      if (thing == kFree) continue;
      things_[from] = kFree;
      things_[to] = thing;
      add(to, bytes[from]);
      moved(thing, to++);
    }
    next_ = to;
    first_ = 0;
  }

  std::vector<std::uint64_t> things_;  // by place; kFree: the thing has moved or is erased
  std::vector<std::uint64_t> tree_;    // bytes
  std::uint64_t total_ = 0;
  std::uint32_t next_ = 0, first_ = 0;
};

}  // namespace larder::sizing
