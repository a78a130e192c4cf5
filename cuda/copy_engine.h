// CopyEngine: moves chunks between an engine's KV pages and arena slots, and hashes every byte it moves.
//
// The one interface of the host's and CUDA's implementations; no CUDA type in it. A chunk is pieces; the payload of
// a slot holds them one after the other (layer by layer, block by block), followed by the table of unit digests (protocol/checksum.h).
// Thread-safe: calls share nothing. The caller owns all memory and keeps it valid during the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "shim/base/status.h"
#include "shim/protocol/copy_strategy.h"

namespace larder::copy {

// A point in the engine's own work, which copies may have to wait for. Made by CopyEngine::fence().
class Fence {
 public:
  virtual ~Fence() = default;
  // Until the work before it is done: for copies that this process does not make itself. As long as that takes.
  virtual Status wait() const = 0;
};

// A chunk's pieces on the engine's side, in payload order. All pieces have the same size.
struct PieceList {
  std::span<std::byte* const> pieces;
  std::uint64_t piece_bytes = 0;
  const Fence* after = nullptr;  // no piece is read or written before it; the caller does not wait for that
};

// A run of a chunk's pieces that is loaded by itself, one layer's for example.
struct ChunkPart {
  std::span<const std::byte> packed;       // in the slot: the pieces one after the other
  std::span<std::byte* const> pieces;      // null ones are left out
  std::span<const std::uint64_t> digests;  // of each unit of each piece, as verified_digests() gave them
};

// Memory that an engine makes ready for its copies, in the background and as it becomes present. Thread-safe. Its destructor takes all of
// that back; REQUIRES: before the memory goes, and no copy uses it.
class ReadyMemory {
 public:
  virtual ~ReadyMemory() = default;
  // So many bytes from its start are present by now: no others are asked of the kernel, since who touches first may be charged.
  virtual void present(std::uint64_t bytes) = 0;
  // The destructor is to make a pause behind each call that takes memory back, as long as the call: the process goes on, and so do others of the node.
  virtual void take_back_slowly() {}
  // So many bytes from its start are ready.
  virtual std::uint64_t ready_bytes() const = 0;
};

class CopyEngine {
 public:
  virtual ~CopyEngine() = default;
  virtual const char* name() const = 0;

  // Copies the pieces into the slot, writes the digest table behind the payload and returns the root. The digests are of the bytes as they were written into
  // the slot, or of what stands on the pages, which nobody writes meanwhile: a byte that went wrong between the two is found out by whoever loads the slot. A
  // failure: the slot may be written, and no byte will be written or read after return.
  // REQUIRES: slot.size() >= protocol::slot_bytes(...), slot aligned to 4 KiB.
  virtual Result<std::uint64_t> store(const PieceList& from, std::span<std::byte> slot) const = 0;

  // Copies the payload onto the pieces and verifies against `root` every unit as it was written there, and the slot's digest table. A
  // null piece is left out; its digests in the table count. kDataLoss: something did not match; pieces may be written, and no byte will
  // be written after return. kUnavailable: this engine copies nothing any more. kFailedPrecondition: not just now.
  virtual Status load(std::span<const std::byte> slot, std::uint64_t root, const PieceList& to) const = 0;

  // Parts of chunks onto their pieces of `piece_bytes` each, all of them or a failure: every unit is verified as it was written there. Codes, and
  // what holds after return, are those of load().
  virtual Status load_parts(std::span<const ChunkPart> parts, std::uint64_t piece_bytes, const Fence* after) const = 0;

  // Copies will follow of so many pieces each, on so many threads: memory that they need is made now, where the engine's thread may wait, and not in the midst of
  // them. What cannot be had is tried again by a copy.
  virtual void prepare(std::uint64_t piece_bytes, std::size_t pieces, unsigned threads) const {
    static_cast<void>(piece_bytes), static_cast<void>(pieces), static_cast<void>(threads);
  }
  // Chunks that are loaded by one load_parts() cost one wait together: so many bytes of them are worth it. 0: each by itself.
  virtual std::uint64_t joined_bytes() const { return 0; }
  // By what copies go, for a log or a status.
  virtual protocol::CopyStrategy strategy() const { return {}; }

  // The digests of what stands on the pieces, by kernels where they lie on a device: nothing is copied. A null piece's are left as they are. kUnsupported:
  // this engine cannot. REQUIRES: `table` has units_per_piece() elements for each piece.
  virtual Status digests(const PieceList& of, std::span<std::uint64_t> table) const {
    static_cast<void>(of), static_cast<void>(table);
    return {Code::kUnsupported, "this copy engine cannot digest pages where they lie"};
  }

  // All that is queued by now on `stream`, the engine's own, in the sense of larder.h. nullptr: what came before is done anyway. kFailedPrecondition: not
  // while that is captured into a graph.
  virtual Result<std::shared_ptr<const Fence>> fence(void* stream) const {
    static_cast<void>(stream);
    return std::shared_ptr<const Fence>();
  }

  // Whether what store() has begun may go on for a moment where this process is killed meanwhile, as a GPU's copies may. Those of threads end with it.
  virtual bool outlives_process() const { return false; }

  // nullptr: this engine copies from and to all memory alike. The engine, `memory` and `file`, of which it is a mapping, outlive what is returned. -1: no other
  // process makes the same memory ready.
  virtual std::unique_ptr<ReadyMemory> make_ready(std::span<std::byte> memory, int file = -1) const {
    static_cast<void>(memory), static_cast<void>(file);
    return nullptr;
  }
};

// A slot's digest table, copied into `table` and verified against the root: what speaks for parts of the chunk, whatever becomes of the slot.
// kDataLoss: it does not match. REQUIRES: `table` has digest_count(payload_bytes, its piece_bytes) elements.
Status verified_digests(std::span<const std::byte> slot, std::uint64_t payload_bytes, std::uint64_t root,
                        std::span<std::uint64_t> table);

// Of an engine's life, for the log: level is info, warning or error.
using Log = std::function<void(std::string_view level, std::string_view text)>;

// 0: host memory, or this process has no CUDA. Else a number that is the same for all pages of one device in one context. A failure: it
// cannot be told which, so that nothing may touch the page.
Result<std::uint64_t> device_of(const void* page);
// The engine of the device that `page` lies on, in its context. REQUIRES: device_of(page) is not 0. Throws std::bad_alloc.
Result<std::unique_ptr<CopyEngine>> device_copy_engine(const void* page, Log log);

// The host's: the product on CPU engines, the yardstick elsewhere. Picks its inner loop by the processor at first use. Static lifetime.
const CopyEngine& host_copy_engine();

}  // namespace larder::copy
