// SimDisk: a disk in memory that knows which of its bytes are safe. What has landed reads back at once; what the loss of power leaves
// of it is decided by the syncs that ended before.
//
// Deterministic: chance comes from the caller. Owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <vector>

namespace larder::sim {

using Random = std::mt19937_64;
inline std::uint64_t below(Random& random, std::uint64_t limit) {
  return random() % limit;
}
inline bool one_in(Random& random, std::uint64_t count) {
  return random() % count == 0;
}

class SimDisk {
 public:
  using Bytes = std::vector<std::byte>;
  static constexpr std::size_t kSectorBytes = 512, kBlockBytes = 4096;

  std::uint64_t size() const { return now_.size(); }
  // What is cut off is gone, what is added is zero; both at once and for good.
  void resize(std::uint64_t bytes);
  // REQUIRES: inside the size.
  void read(std::uint64_t offset, std::span<std::byte> to) const;

  // A write is in flight from begin() on, until it has landed, or is forgotten: of that, too, power loss may leave any part.
  std::uint64_t begin(std::uint64_t offset, Bytes bytes);
  void land(std::uint64_t number);
  // As many sectors of it as chance wants, and the write is over.
  void land_torn(std::uint64_t number, Random& random);
  void forget(std::uint64_t number) { flying_.erase(number); }
  const Bytes& in_flight(std::uint64_t number) const { return flying_.at(number).bytes; }

  // What had landed before begin_sync() is safe after end_sync() with what that returned.
  std::uint64_t begin_sync() const { return landings_; }
  void end_sync(std::uint64_t began);

  // The disk as it is now, with all that has landed; and as the loss of power may leave it: all that is safe, and of each other write
  // all, nothing, its beginning, or any of its sectors or blocks.
  SimDisk as_it_is() const;
  SimDisk after_power_loss(Random& random) const;

  // Bytes change by themselves, for good.
  void damage(std::uint64_t offset, std::span<const std::byte> bytes);
  std::span<const std::byte> bytes() const { return now_; }
  std::uint64_t landings() const { return landings_; }

  std::function<void(std::uint64_t offset, std::size_t bytes)> on_begin;  // a test that looks on

 private:
  struct Write {
    std::uint64_t offset;
    Bytes bytes;
  };
  static void apply(const Write& write, Bytes& to);
  static void apply_torn(const Write& write, Bytes& to, Random& random);

  Bytes now_, safe_;
  std::map<std::uint64_t, Write> flying_;  // by number
  std::map<std::uint64_t, Write> landed_;  // by landing; not safe
  std::uint64_t next_ = 1, landings_ = 0;
};

}  // namespace larder::sim
