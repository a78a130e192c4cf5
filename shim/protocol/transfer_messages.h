// The messages for copies by the sidecar, in the engine's KV memory (transfer: sidecar; since 1.5).
// PROTOCOL.md is the grammar.
#pragma once

#include <cstdint>
#include <string_view>

#include "shim/protocol/messages.h"

namespace larder::protocol {

// The reason why the sidecar does not copy for an engine; the engine then copies. Numbers never
// change; an unknown number is "other".
enum class TransferReason : std::uint32_t {
  kNone = 0,  // the sidecar copies
  // Engine and sidecar have the same process number in their containers, which CUDA refuses.
  kSameProcess = 1,
  kNoDriver = 2,   // no libcuda.so.1 for the sidecar
  kOldDriver = 3,  // the driver is older than CUDA 12.0, or lacks a function
  // The sidecar sees no GPU (a device plugin or DRA gave the GPU to the engine alone).
  kNoDevice = 4,
  kOtherDevice =
      5,     // the sidecar sees other GPUs, or the engine has exported memory of another GPU before
  kMig = 6,  // a MIG instance, whose memory cannot be shared
  kNotOpened = 7,  // the driver refused a handle: stale, forged, or of another machine
  kSize = 8,       // the size of an allocation differs from the engine's figure
  kBound = 9,  // more allocations than kMaxExports, or a COPY of more than kMaxPiecesPerCopy pieces
  // Copies by the sidecar on this device have ended or cannot begin: an error of CUDA,
  // or no memory.
  kFailed = 10,
  kHostMemory = 11,  // from the engine: the pages lie in host memory, which needs no export
  // From the engine: the driver gives no handle for the memory (sleep mode without shareable
  // memory).
  kNotExportable = 12,
  // From the engine: copied bytes differ from the pages, so the sidecar's view is stale.
  kNotVerified = 13,
  kLate = 14,  // from the engine: a copy was not begun in time
};

// For logs, metrics and display.
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
  kHandle = 1,  // a legacy memory handle, 64 bytes
  // Memory mapped by hand: a file descriptor in the packet, in the order of the ranges.
  kDescriptor = 2,
};

struct ExportedRange {
  std::uint32_t kind;  // MemoryKind
  std::uint32_t reserved;
  std::uint64_t bytes;      // of the whole allocation
  std::uint8_t handle[64];  // of kHandle
};
static_assert(sizeof(ExportedRange) == 80);

// Followed by ExportedRange[count] and text_bytes of text. Ranges are numbered in order of arrival,
// over all EXPORTs since the last WITHDRAW.
struct Export {
  std::uint32_t count;
  // TransferReason; not kNone: the engine copies by itself, count is 0, the text has the reason
  std::uint32_t reason;
  std::uint32_t process_number;  // of the engine, in its own PID namespace
  std::uint32_t text_bytes;
  std::uint8_t device[16];  // the GPU's UUID
};
static_assert(sizeof(Export) == 32);

// Followed by text_bytes of text. The first EXPORTED of a session brings the transfer region's
// descriptor.
struct Exported {
  std::uint32_t reason;  // TransferReason: of the whole EXPORT
  std::uint32_t text_bytes;
  std::uint64_t region_bytes;  // 0: the message has no descriptor
};
static_assert(sizeof(Exported) == 16);

struct Withdraw {  // WITHDRAW and WITHDRAWN
  std::uint64_t reserved;
};
static_assert(sizeof(Withdraw) == 8);

enum class CopyVerb : std::uint32_t { kStore = 1, kLoad = 2 };

// A piece: the number of the range in the high 16 bits, the offset in the range in the low 48. A
// load leaves kNoPiece out.
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

static_assert(sizeof(MessageHeader) + sizeof(Copy) + kMaxPiecesPerCopy * sizeof(std::uint64_t) <=
              kMaxPacketBytes);
static_assert(sizeof(MessageHeader) + sizeof(Export) +
                  kMaxExportsPerMessage * sizeof(ExportedRange) + kMaxTransferTextBytes <=
              kMaxPacketBytes);

}  // namespace larder::protocol
