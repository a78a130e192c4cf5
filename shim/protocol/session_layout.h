// The session region: one per session, written by the engine, read by the sidecar as hostile input.
//
// A memfd that the sidecar makes, sizes and seals (SHRINK, GROW, SEAL), and passes in WELCOME.
// False values cost only the engine that wrote them: a wrong hold keeps a slot of the engine
// longer, or lets the engine's own load fail its checksum. Wrong events falsify recency and
// metrics.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/protocol/index_layout.h"
#include "shim/protocol/limits.h"

namespace larder::protocol {

inline constexpr std::uint64_t kSessionMagic = 0x315345535241414cULL;  // "LAARSES1"

// A hold names slot and generation in one word, so one exchange announces a hold: slot + 1 in the
// low half, the low 32 bits of the generation in the high half; 0 is empty. Two generations with
// equal low bits make the sidecar keep a slot too long, never too short.
constexpr std::uint64_t make_hold(std::uint32_t slot, std::uint64_t generation) {
  return pack_halves(slot + 1, static_cast<std::uint32_t>(generation));
}

enum class EventKind : std::uint32_t {
  kNone = 0,
  kTouch = 1,  // a chunk was used: slot, generation. Feeds recency
  // One request was looked up: a = tokens asked, b = tokens hit, c = nanoseconds of the look-up.
  // Since 1.4: slot = namespace handle, generation = number of hashes in the kAsked events just
  // before, d = Decision, flags: kRequestSalted
  kRequest = 2,
  // One load succeeded: a = bytes, b = tokens, c = nanoseconds waited,
  // d = nanoseconds of copy and verification.
  kLoad = 3,
  kLoadFailed = 4,  // a = 1 checksum, 2 gone, 3 deadline, 4 other
  kStore = 5,       // one store ended: a = bytes, b = tokens, c = nanoseconds of copy
  // The engine computed: a = tokens, b = nanoseconds. Gives the seconds of prefill saved.
  kPrefill = 6,
  // Since 1.4: hashes of the next kRequest, from its first chunk on: a to d = the first 8 bytes of
  // each block hash, generation = number of the first hash in the request | count << 32, slot =
  // namespace handle
  kAsked = 7,
};
inline constexpr std::size_t kHashesPerEvent = 4;

// Flags of kRequest. A reader ignores unknown flags.
// The request carried a salt, and hits only chunks with this salt.
inline constexpr std::uint64_t kRequestSalted = 1;

// The engine's decision about a request.
enum class Decision : std::uint64_t {
  kUnknown = 0,    // before 1.4
  kLoad = 1,       // loads the chunks in memory
  kFetch = 2,      // also loads chunks that were fetched from lower tiers
  kRecompute = 3,  // chunks were in lower tiers, and computing was faster
  kAbsent = 4,     // no chunk to load
};

struct Event {
  AtomicU64 sequence;  // position in the ring + 1 for a whole event; any other value: being written
  AtomicU64 kind_slot;  // low half EventKind, high half slot
  AtomicU64 generation;
  AtomicU64 a, b, c, d;
  AtomicU64 flags;  // 0 before 1.4
};
static_assert(sizeof(Event) == 64);

struct SessionRegion {
  std::uint64_t magic;
  std::uint32_t version_major;
  std::uint32_t version_minor;
  AtomicU64 heartbeat;   // counts up; a number, not a time, so no clock is shared
  AtomicU64 holds_used;  // all holds are in places below; raised before a hold is announced
  AtomicU64 event_head;  // events ever written
  // Since 1.6, from an engine with pages on a GPU: the registered bytes of the arena, and how the
  // engine copies (copy_strategy.h).
  AtomicU64 registered_bytes;
  AtomicU64 copy_strategy;
  std::uint8_t reserved0[8];
  AtomicU64 holds[kMaxHolds];
  Event events[kEventSlots];
};
static_assert(offsetof(SessionRegion, holds) == 64);
static_assert(offsetof(SessionRegion, events) == 64 + 8 * kMaxHolds);
static_assert(sizeof(SessionRegion) == 64 + 8 * kMaxHolds + 64 * kEventSlots);

}  // namespace larder::protocol
