// SimDisk: a disk in memory that knows its safe bytes. A landed write reads back at once. Only
// writes that a later sync has covered are safe from a power loss.
//
// Deterministic: randomness comes from the caller. Owned by one thread.
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
  // Removed bytes are gone and new bytes are zero, both at once and for good.
  void resize(std::uint64_t bytes);
  // REQUIRES: inside the size.
  void read(std::uint64_t offset, std::span<std::byte> to) const;

  // A write is in flight from begin() until it lands or is forgotten. A power loss may leave any
  // part of a write in flight.
  std::uint64_t begin(std::uint64_t offset, Bytes bytes);
  void land(std::uint64_t number);
  // Lands random sectors of the write, and ends the write.
  void land_torn(std::uint64_t number, Random& random);
  void forget(std::uint64_t number) { flying_.erase(number); }
  const Bytes& in_flight(std::uint64_t number) const { return flying_.at(number).bytes; }

  // Writes that landed before begin_sync() are safe after end_sync() with the returned number.
  std::uint64_t begin_sync() const { return landings_; }
  void end_sync(std::uint64_t began);

  // The disk with all landed writes; and a disk after a power loss: all safe writes, and of each
  // other write all, no, the first, or any sectors or blocks.
  SimDisk as_it_is() const;
  SimDisk after_power_loss(Random& random) const;

  // Bytes change without a write, for good.
  void damage(std::uint64_t offset, std::span<const std::byte> bytes);
  std::span<const std::byte> bytes() const { return now_; }
  std::uint64_t landings() const { return landings_; }

  std::function<void(std::uint64_t offset, std::size_t bytes)> on_begin;  // a test's observer

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
