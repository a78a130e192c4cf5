// The data with which one process opens device memory of another, or the reason for a refusal.
// Plain values without CUDA types.
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

// One allocation. An open descriptor keeps the memory alive; a legacy handle is only a name.
struct MemoryHandle {
  protocol::MemoryKind kind = protocol::MemoryKind::kHandle;
  std::array<std::uint8_t, 64> bytes{};  // for kHandle
  Fd fd;                                 // for kDescriptor
  std::uint64_t size_bytes = 0;
};

// kNone: no refusal.
struct TransferRefusal {
  protocol::TransferReason reason = protocol::TransferReason::kNone;
  std::string text;
  bool refused() const { return reason != protocol::TransferReason::kNone; }
};

}  // namespace larder::copy
