// The operations in an input of session_fuzz.cc, region_fuzz.cc, resp_fuzz.cc, peer_fuzz.cc and
// plugin_fuzz.cc: one byte an operation, then its operands in the target's order. seeds.cc writes
// the same. A new operation goes before kOps; the corpora hold the others by number.
#pragma once

#include <cstdint>

namespace larder::fuzz {

// The low half of the byte; the high half is the session.
namespace session_op {
enum Op : std::uint8_t {
  kRaw,
  kBody,
  kAttach,
  kOpen,
  kReserve,
  kCommit,
  kSlot,
  kDrop,
  kHold,
  kSilent,
  kEnd,
  kIdle,
  kClear,
  kReturn,
  kFetch,
  kTier,
  kOps
};
// Of kTier, in the next byte.
enum TierOp : std::uint8_t {
  kStoreBelow,
  kReadEnds,
  kReadFails,
  kDeadlineMissed,
  kReleased,
  kTicked,
  kProbeEnds,
  kProbeFails,
  kTransfer,  // no tier's: the low half of kOps is full. Copies by larderd itself
  kTierOps
};
// Of kTransfer, in the next byte; the session is in the byte after.
enum TransferOp : std::uint8_t { kExport, kDecline, kWithdraw, kCopy, kTransferOps };
}  // namespace session_op

namespace region_op {
enum Op : std::uint8_t {
  kHoldsUsed,
  kWord,
  kHold,
  kHead,
  kEvent,
  kRing,
  kDrain,
  kReserve,
  kEvict,
  kSilent,
  kIdle,
  kOps
};
}  // namespace region_op

// Of resp_fuzz.cc.
namespace resp_op {
enum Op : std::uint8_t { kAsk, kBytes, kPayload, kError, kPieces, kCancel, kPump, kOps };
}  // namespace resp_op

// Of plugin_fuzz.cc.
namespace plugin_op {
enum Op : std::uint8_t {
  kConnect,
  kReady,
  kDone,
  kFound,
  kState,
  kBytes,
  kPut,
  kGet,
  kProbe,
  kDrop,
  kEvict,
  kScribble,
  kTime,
  kHangUp,
  kServe,
  kOps
};
}  // namespace plugin_op

// Of peer_fuzz.cc.
namespace peer_op {
enum Op : std::uint8_t { kFrame, kBytes, kAnswer, kPieces, kTime, kReply, kClose, kOps };
}  // namespace peer_op

}  // namespace larder::fuzz
