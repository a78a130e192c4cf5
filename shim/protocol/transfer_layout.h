// The transfer region: one per session whose copies the sidecar makes itself (transfer: sidecar). A flag a copy, by which it is begun and ended.
//
// A memfd that the sidecar makes and seals. It keeps a POSIX record lock (F_SETLK) on it for as long as it may copy for that session: an engine that waits for
// a flag asks for the lock (F_OFD_GETLK), and knows by it that the sidecar is dead. What stands in the region can only cost the engine that writes it.
//
//   idle --engine, before COPY--> asked --sidecar--> taken --sidecar--> ended --engine--> idle
//                                   `--engine--> cancelled --sidecar, when it comes to it--> ended
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/protocol/index_layout.h"
#include "shim/protocol/limits.h"

namespace larder::protocol {

inline constexpr std::uint64_t kTransferMagic = 0x314152545241414cULL;  // "LAARTRA1"

using AtomicU32 = std::atomic<std::uint32_t>;
static_assert(sizeof(AtomicU32) == 4 && AtomicU32::is_always_lock_free);

enum class CopyState : std::uint32_t {
  kIdle = 0,
  kAsked = 1,      // the engine's: from here on the sidecar may take it
  kTaken = 2,      // the sidecar's: bytes move, nobody may take it back
  kCancelled = 3,  // the engine's: it was not taken in time
  kEnded = 4,      // the sidecar's: nobody writes for it any more
};

struct CopyFlag {
  AtomicU32 state;  // CopyState; a futex
  AtomicU32 code;   // of status.h, once it has ended
  AtomicU64 root;   // of a store that ended well
};
static_assert(sizeof(CopyFlag) == 16);

struct TransferRegion {
  std::uint64_t magic;
  std::uint32_t version_major;
  std::uint32_t version_minor;
  std::uint8_t reserved[48];
  CopyFlag flags[kMaxCopies];
};
static_assert(offsetof(TransferRegion, flags) == 64 && sizeof(TransferRegion) == 64 + 16 * kMaxCopies);

}  // namespace larder::protocol
