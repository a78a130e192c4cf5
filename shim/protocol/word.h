// The word of a slot: state in the low 3 bits, generation in the high 61.
//
// Only the sidecar writes it; engines read it. It changes by sequentially consistent exchange, never by fences, because the
// hold handshake (an engine announces a hold, then re-reads the word; the sidecar makes the word dying, then scans the holds)
// needs a total order over both words:
//
//   free -> granted -> committed -> dying -> free
//              |            ^---------'          (dying and found held: back, same generation)
//              '-> quarantined -> free           (its writer went silent or died: free when it has surely stopped)
#pragma once

#include <cstdint>

namespace larder::protocol {

enum class SlotState : std::uint8_t { kFree = 0, kGranted = 1, kCommitted = 2, kDying = 3, kQuarantined = 4 };

inline constexpr int kStateBits = 3;
inline constexpr std::uint64_t kMaxGeneration = (1ULL << (64 - kStateBits)) - 1;

constexpr std::uint64_t make_word(SlotState state, std::uint64_t generation) {
  return (generation << kStateBits) | static_cast<std::uint64_t>(state);
}
constexpr SlotState word_state(std::uint64_t word) {
  return static_cast<SlotState>(word & ((1U << kStateBits) - 1));
}
constexpr std::uint64_t word_generation(std::uint64_t word) {
  return word >> kStateBits;
}

}  // namespace larder::protocol
