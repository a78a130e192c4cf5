// Admission: decides which chunks are worth the wear of the disk. Pure; thread-compatible.
//
// FrequencySketch is a count-min sketch with counters of four bits in four rows. All counters are
// halved from time to time, so that old uses count for less. Apart from the halving an estimate is
// never too low.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace larder::tiering {

class FrequencySketch {
 public:
  // `chunks`: about so many different chunks in recent use; 8 bytes each, rounded up to a power of
  // two.
  explicit FrequencySketch(std::size_t chunks);

  // Counts one sight of a chunk. `hash` is uniform: a word of the block hash.
  void see(std::uint64_t hash);
  std::uint32_t estimate(std::uint64_t hash) const;  // 0 to 15

  std::size_t bytes() const { return counters_.size(); }

 private:
  static constexpr std::size_t kRows = 4;
  static constexpr std::uint32_t kMost = 15;
  std::size_t place(std::uint64_t hash, std::size_t row) const;
  std::uint32_t read(std::size_t place) const;
  void halve();

  std::vector<std::uint8_t> counters_;  // two a byte, row after row
  std::size_t row_counters_;            // a power of two
  std::uint64_t seen_ = 0;
  std::uint64_t halve_after_;
};

class Admission {
 public:
  // Admits a chunk from its `sights`-th sight on; 0 or 1: always.
  Admission(std::uint32_t sights, std::size_t chunks)
      : sights_(sights), sketch_(sights > 1 ? chunks : 1) {}

  void see(std::uint64_t hash) {
    if (sights_ > 1) sketch_.see(hash);
  }
  bool admits(std::uint64_t hash) const {
    return sights_ <= 1 || sketch_.estimate(hash) >= sights_;
  }

 private:
  std::uint32_t sights_;
  FrequencySketch sketch_;
};

}  // namespace larder::tiering
