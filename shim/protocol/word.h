// The word of a slot: state in the low 3 bits, generation in the high 61.
//
// Only the sidecar writes the word; engines read it. Holds change, and words leave the committed
// state, by sequentially consistent read-modify-writes, never by fences: the handshake needs their
// total order. An engine announces a hold, then reads the word again; the sidecar makes the word
// dying, then scans the holds. Other changes are release stores, of at most 64 bits.
//
//   free -> granted -> committed -> dying -> free
//              |            ^---------'          (dying and held: back, at the same generation)
//              '-> quarantined -> free           (the writer is silent or dead; free once stopped)
#pragma once

#include <cstdint>

namespace larder::protocol {

enum class SlotState : std::uint8_t {
  kFree = 0,
  kGranted = 1,
  kCommitted = 2,
  kDying = 3,
  kQuarantined = 4
};

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
