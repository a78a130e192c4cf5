// The transfer region: one per session with copies by the sidecar (transfer: sidecar). Each copy
// has a flag, by which the copy begins and ends.
//
// A memfd that the sidecar makes and seals. The sidecar keeps a POSIX record lock (F_SETLK) on the
// region while it may copy for the session. An engine that waits for a flag queries the lock
// (F_OFD_GETLK); without the lock the sidecar is dead. A false value in the region costs only the
// engine that writes it.
//
//   idle --engine, before COPY--> asked --sidecar--> taken --sidecar--> ended --engine--> idle
//                                   `--engine--> cancelled --sidecar, at its turn--> ended
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
  kAsked = 1,      // by the engine: the sidecar may take the copy
  kTaken = 2,      // by the sidecar: bytes move, and the copy cannot be cancelled
  kCancelled = 3,  // by the engine: the copy was not taken in time
  kEnded = 4,      // by the sidecar: no byte is written for the copy any more
};

struct CopyFlag {
  AtomicU32 state;  // CopyState; a futex
  AtomicU32 code;   // of status.h, in state kEnded
  AtomicU64 root;   // of a successful store
};
static_assert(sizeof(CopyFlag) == 16);

struct TransferRegion {
  std::uint64_t magic;
  std::uint32_t version_major;
  std::uint32_t version_minor;
  std::uint8_t reserved[48];
  CopyFlag flags[kMaxCopies];
};
static_assert(offsetof(TransferRegion, flags) == 64 &&
              sizeof(TransferRegion) == 64 + 16 * kMaxCopies);

}  // namespace larder::protocol
