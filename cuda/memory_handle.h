// What one process hands to another so that it can open memory of a device, and why it cannot. Plain values; no CUDA type in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "shim/protocol/transfer_messages.h"

namespace larder::copy {

using DeviceId = std::array<std::uint8_t, 16>;  // a GPU's UUID

// One allocation. A descriptor keeps the memory alive for as long as it is open; a legacy handle is only a name.
struct MemoryHandle {
  protocol::MemoryKind kind = protocol::MemoryKind::kHandle;
  std::array<std::uint8_t, 64> bytes{};  // of kHandle
  Fd fd;                                 // of kDescriptor
  std::uint64_t size_bytes = 0;
};

// kNone: it can be done.
struct TransferRefusal {
  protocol::TransferReason reason = protocol::TransferReason::kNone;
  std::string text;
  bool refused() const { return reason != protocol::TransferReason::kNone; }
};

}  // namespace larder::copy
