#include "sidecar/tiering/frequency_sketch.h"

#include <algorithm>
#include <bit>

namespace larder::tiering {
namespace {

constexpr std::size_t kCountersAChunk = 4;   // in a row: collisions are rare
constexpr std::uint64_t kSightsAChunk = 10;  // between halvings
constexpr std::size_t kLeastRowCounters = 64;

}  // namespace

FrequencySketch::FrequencySketch(std::size_t chunks)
    : row_counters_(std::bit_ceil(std::max(chunks * kCountersAChunk, kLeastRowCounters))),
      halve_after_(std::max<std::uint64_t>(chunks, 1) * kSightsAChunk) {
  counters_.resize(kRows * row_counters_ / 2);
}

std::size_t FrequencySketch::place(std::uint64_t hash, std::size_t row) const {
  // Odd multipliers with well spread bits. The four rows must not collide together, or their
  // minimum would be as wrong as one row.
  static constexpr std::array<std::uint64_t, kRows> kMix{
      0x9e3779b97f4a7c15ULL, 0xc2b2ae3d27d4eb4fULL, 0x165667b19e3779f9ULL, 0xd6e8feb86659fd93ULL};
  const std::uint64_t mixed = (hash ^ (hash >> 31)) * kMix[row];
  return row * row_counters_ + static_cast<std::size_t>(mixed >> 20) % row_counters_;
}

std::uint32_t FrequencySketch::read(std::size_t place) const {
  return (counters_[place / 2] >> (place % 2 * 4)) & kMost;
}

std::uint32_t FrequencySketch::estimate(std::uint64_t hash) const {
  std::uint32_t least = kMost;
  for (std::size_t row = 0; row < kRows; ++row) least = std::min(least, read(place(hash, row)));
  return least;
}

void FrequencySketch::see(std::uint64_t hash) {
  // Only the lowest counters of the chunk grow: higher counters include other chunks.
  const std::uint32_t now = estimate(hash);
  for (std::size_t row = 0; row < kRows && now < kMost; ++row) {
    const std::size_t at = place(hash, row);
    if (read(at) == now)
      counters_[at / 2] = static_cast<std::uint8_t>(counters_[at / 2] + (1U << (at % 2 * 4)));
  }
  if (++seen_ >= halve_after_) halve();
}

void FrequencySketch::halve() {
  // The aging of TinyLFU (Einziger, Friedman, Manes): a chunk that was popular last week must not
  // keep its lead for ever.
  seen_ /= 2;
  for (std::uint8_t& both : counters_) both = static_cast<std::uint8_t>((both >> 1) & 0x77);
}

}  // namespace larder::tiering
