// CopyEngine: moves chunks between an engine's KV pages and arena slots, and hashes every byte it moves.
//
// The one interface of host, CUDA copy-engine and CUDA kernel implementations; no CUDA type in it. A chunk is pieces; the payload of
// a slot holds them one after the other (layer by layer, block by block), followed by the table of unit digests (protocol/checksum.h).
// Thread-safe: calls share nothing. The caller owns all memory and keeps it valid during the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shim/protocol/status.h"

namespace larder::copy {

// A chunk's pieces on the engine's side, in payload order. All pieces have the same size.
struct PieceList {
  std::span<std::byte* const> pieces;
  std::uint64_t piece_bytes = 0;
};

class CopyEngine {
 public:
  virtual ~CopyEngine() = default;
  virtual const char* name() const = 0;

  // Copies the pieces into the slot, writes the digest table behind the payload and returns the root. The digests are those of the
  // bytes written into the slot. REQUIRES: slot.size() >= protocol::slot_bytes(...), slot aligned to 4 KiB.
  virtual std::uint64_t store(const PieceList& from, std::span<std::byte> slot) const = 0;

  // Copies the payload onto the pieces and verifies against `root` every unit as it was written there, and the slot's digest table. A
  // null piece is left out; its digests in the table count. kDataLoss: something did not match; pieces may be written, and no byte will
  // be written after return.
  virtual Status load(std::span<const std::byte> slot, std::uint64_t root, const PieceList& to) const = 0;
};

// The host's: the product on CPU engines, the yardstick elsewhere. Picks its inner loop by the processor at first use. Static lifetime.
const CopyEngine& host_copy_engine();

}  // namespace larder::copy
