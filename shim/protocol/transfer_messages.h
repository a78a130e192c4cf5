// The messages of copies that the sidecar makes itself, in the engine's KV memory (transfer: sidecar; since 1.5). PROTOCOL.md is their grammar.
#pragma once

#include <cstdint>
#include <string_view>

#include "shim/protocol/messages.h"

namespace larder::protocol {

// Why the sidecar does not copy for an engine, which copies by itself then. Numbers never change; an unknown one is "other".
enum class TransferReason : std::uint32_t {
  kNone = 0,            // it does
  kSameProcess = 1,     // engine and sidecar have the same process number, each in its container: CUDA refuses that
  kNoDriver = 2,        // no libcuda.so.1 where the sidecar runs
  kOldDriver = 3,       // it is older than CUDA 12.0, or lacks a function
  kNoDevice = 4,        // the sidecar sees no GPU (a device plugin or DRA gave it to the engine alone)
  kOtherDevice = 5,     // it sees GPUs, and not the engine's; or the engine has exported memory of another before
  kMig = 6,             // a MIG instance: its memory cannot be shared
  kNotOpened = 7,       // the driver refused a handle: stale, forged, or not of this machine
  kSize = 8,            // an allocation is not as large as the engine says
  kBound = 9,           // more allocations than kMaxExports, or a COPY of more than kMaxPiecesPerCopy pieces
  kFailed = 10,         // copies of the sidecar on that device have ended, or cannot begin: an error of CUDA, or no memory
  kHostMemory = 11,     // the engine's: its pages lie in host memory, which needs none of this
  kNotExportable = 12,  // the engine's: the driver gives no handle for its memory (sleep mode's, unless it was made to be shared)
  kNotVerified = 13,    // the engine's: what the sidecar copied is not what stands on the pages: its view of them is stale
  kLate = 14,           // the engine's: a copy was not begun in time
};

// For people, logs and metrics.
constexpr std::string_view transfer_reason_name(TransferReason reason) {
  switch (reason) {
    case TransferReason::kNone: return "none";
    case TransferReason::kSameProcess: return "same_process_number";
    case TransferReason::kNoDriver: return "no_driver";
    case TransferReason::kOldDriver: return "old_driver";
    case TransferReason::kNoDevice: return "no_device";
    case TransferReason::kOtherDevice: return "other_device";
    case TransferReason::kMig: return "mig";
    case TransferReason::kNotOpened: return "not_opened";
    case TransferReason::kSize: return "size";
    case TransferReason::kBound: return "bound";
    case TransferReason::kFailed: return "failed";
    case TransferReason::kHostMemory: return "host_memory";
    case TransferReason::kNotExportable: return "not_exportable";
    case TransferReason::kNotVerified: return "not_verified";
    case TransferReason::kLate: return "late";
  }
  return "other";
}

enum class MemoryKind : std::uint32_t {
  kHandle = 1,      // a legacy memory handle, 64 bytes
  kDescriptor = 2,  // memory mapped by hand: a file descriptor, which comes with the packet, in the order of these
};

struct ExportedRange {
  std::uint32_t kind;  // MemoryKind
  std::uint32_t reserved;
  std::uint64_t bytes;      // of the whole allocation
  std::uint8_t handle[64];  // of kHandle
};
static_assert(sizeof(ExportedRange) == 80);

// Followed by ExportedRange[count] and text_bytes of text. Ranges are numbered in the order in which they come, over all EXPORTs since the last WITHDRAW.
struct Export {
  std::uint32_t count;
  std::uint32_t reason;          // TransferReason; not kNone: the engine copies by itself, count is 0, and the text says why
  std::uint32_t process_number;  // as the engine's process sees itself
  std::uint32_t text_bytes;
  std::uint8_t device[16];  // the GPU's UUID
};
static_assert(sizeof(Export) == 32);

// Followed by text_bytes of text. With the first one of a session comes the transfer region's descriptor.
struct Exported {
  std::uint32_t reason;  // TransferReason: of the whole EXPORT
  std::uint32_t text_bytes;
  std::uint64_t region_bytes;  // 0: no descriptor comes with it
};
static_assert(sizeof(Exported) == 16);

struct Withdraw {  // WITHDRAW and WITHDRAWN
  std::uint64_t reserved;
};
static_assert(sizeof(Withdraw) == 8);

enum class CopyVerb : std::uint32_t { kStore = 1, kLoad = 2 };

// A piece: the number of its range in the high 16 bits, its offset there in the low 48. Of a load, kNoPiece is left out.
inline constexpr std::uint64_t kNoPiece = UINT64_MAX;
inline constexpr int kPieceOffsetBits = 48;
constexpr std::uint64_t make_piece(std::uint64_t range, std::uint64_t offset) {
  return range << kPieceOffsetBits | offset;
}
constexpr std::uint64_t piece_range(std::uint64_t piece) {
  return piece >> kPieceOffsetBits;
}
constexpr std::uint64_t piece_offset(std::uint64_t piece) {
  return piece & ((std::uint64_t{1} << kPieceOffsetBits) - 1);
}

struct Copy {  // followed by u64[count]
  std::uint32_t verb;
  std::uint32_t flag;  // in the transfer region
  std::uint32_t slot;
  std::uint32_t count;
  std::uint64_t generation;
};
static_assert(sizeof(Copy) == 24);

static_assert(sizeof(MessageHeader) + sizeof(Copy) + kMaxPiecesPerCopy * sizeof(std::uint64_t) <= kMaxPacketBytes);
static_assert(sizeof(MessageHeader) + sizeof(Export) + kMaxExportsPerMessage * sizeof(ExportedRange) + kMaxTransferTextBytes <=
              kMaxPacketBytes);

}  // namespace larder::protocol
