// Admission: which chunks are worth the disk's wear. Pure; thread-compatible.
//
// A count-min sketch of small counters: four bits an estimate, four rows, halved as time passes, so that what was in fashion long
// ago counts for less. It never estimates too little, but for the halving.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace larder::tiering {

class FrequencySketch {
 public:
  // For about so many different chunks in fashion; 8 bytes for each, rounded up to a power of two.
  explicit FrequencySketch(std::size_t chunks);

  // Counts one sight of it. `hash` is uniform: a block hash's word.
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
  // A chunk goes to the disk from its `sights`-th sight on; 0 or 1: always.
  Admission(std::uint32_t sights, std::size_t chunks) : sights_(sights), sketch_(sights > 1 ? chunks : 1) {}

  void see(std::uint64_t hash) {
    if (sights_ > 1) sketch_.see(hash);
  }
  bool admits(std::uint64_t hash) const { return sights_ <= 1 || sketch_.estimate(hash) >= sights_; }

 private:
  std::uint32_t sights_;
  FrequencySketch sketch_;
};

}  // namespace larder::tiering
