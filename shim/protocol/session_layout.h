// The session region: one per session, written by the engine, read by the sidecar as hostile input.
//
// A memfd that the sidecar makes, sizes and seals (SHRINK, GROW, SEAL) and hands over in WELCOME. What stands in it can only cost
// the engine that wrote it: a wrong hold keeps one of its slots longer or gets its own load refused by the checksum, wrong events
// falsify recency and metrics.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/protocol/index_layout.h"
#include "shim/protocol/limits.h"

namespace larder::protocol {

inline constexpr std::uint64_t kSessionMagic = 0x315345535241414cULL;  // "LAARSES1"

// A hold names slot and generation in one word, so that announcing it is one exchange: slot + 1 in the low half, the low 32 bits
// of the generation in the high half; 0 is empty. Equal low bits of two generations make the sidecar keep a slot too long, never
// too short.
constexpr std::uint64_t make_hold(std::uint32_t slot, std::uint64_t generation) {
  return pack_halves(slot + 1, static_cast<std::uint32_t>(generation));
}

enum class EventKind : std::uint32_t {
  kNone = 0,
  kTouch = 1,  // a chunk was used: slot, generation. Feeds recency
  // One request was looked up: a = tokens asked, b = tokens hit, c = lookup nanoseconds; since 1.4 slot = namespace handle,
  // generation = hashes told by kAsked just before, d = Decision, flags: kRequestSalted
  kRequest = 2,
  kLoad = 3,  // one load ended well: a = bytes, b = tokens, c = nanoseconds waited, d = nanoseconds of copy and verification
  kLoadFailed = 4,  // a = 1 checksum, 2 gone, 3 deadline, 4 other
  kStore = 5,       // one store ended: a = bytes, b = tokens, c = nanoseconds of copy
  kPrefill = 6,     // the engine computed: a = tokens, b = nanoseconds. Gives the seconds of prefill saved
  // Since 1.4: what the request that is told next looked up, from its first chunk on: a to d = the first 8 bytes of each block hash,
  // generation = the number of the first of them in the request | how many there are << 32, slot = namespace handle
  kAsked = 7,
};
inline constexpr std::size_t kHashesPerEvent = 4;

// Flags of kRequest. Who does not know one ignores it.
inline constexpr std::uint64_t kRequestSalted = 1;  // it carried a salt: it hits only what requests with the same one computed

// What an engine did about a request.
enum class Decision : std::uint64_t {
  kUnknown = 0,    // before 1.4
  kLoad = 1,       // what is in memory
  kFetch = 2,      // more was brought up from below the memory for it
  kRecompute = 3,  // there was more below, and computing it was faster
  kAbsent = 4,     // there is nothing to load
};

struct Event {
  AtomicU64 sequence;   // position in the ring + 1 once the event is whole; anything else: being written
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
  AtomicU64 heartbeat;   // counts up; a number and no time, so that no clock is shared
  AtomicU64 holds_used;  // every hold stands below it; raised before the hold is announced
  AtomicU64 event_head;  // events ever written
  // Since 1.6, of an engine with pages on a GPU: how much of the arena is registered with it, and by what it copies (copy_strategy.h).
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
