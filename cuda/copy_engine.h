// CopyEngine: moves chunks between an engine's KV pages and arena slots, and hashes every byte it
// moves.
//
// Host memory and CUDA devices implement this one interface, and no CUDA type appears here. A chunk
// consists of pieces. The payload of a slot holds the pieces in order (layer by layer, block by
// block). The table of unit digests follows the payload (protocol/checksum.h).
//
// All implementations give the results of protocol/checksum.h on every processor.
// tests/conformance/copy_engine_test.cc runs each implementation.
//
// A call returns after all its work has ended, also when the call fails. Thread-safe. The caller
// owns all memory and keeps the memory valid during the call.
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

// A point in the engine's own work. Copies may have to wait for this point. CopyEngine::fence()
// makes a fence.
class Fence {
 public:
  virtual ~Fence() = default;
  // Blocks without a deadline until the work before the fence is done.
  virtual Status wait() const = 0;
};

// The pieces of a chunk on the engine's side, in payload order. All pieces have the same size.
struct PieceList {
  std::span<std::byte* const> pieces;
  std::uint64_t piece_bytes = 0;
  // The first access to a piece comes after this fence, for which the call may block.
  const Fence* after = nullptr;
};

// A run of pieces of one chunk that is loaded alone, for example one layer.
struct ChunkPart {
  std::span<const std::byte> packed;       // in the slot, the pieces in order
  std::span<std::byte* const> pieces;      // null pieces are left out
  std::span<const std::uint64_t> digests;  // of each unit of each piece, from verified_digests()
};

// Memory that an engine prepares for its copies in the background, as the pages become present.
// Thread-safe. The destructor undoes the preparation. REQUIRES of the destructor: the memory still
// exists, and no copy uses the memory.
class ReadyMemory {
 public:
  virtual ~ReadyMemory() = default;
  // The first `bytes` bytes are present now. Only present pages are prepared: the kernel may charge
  // a page to the process that touches the page first.
  virtual void present(std::uint64_t bytes) = 0;
  // Makes the destructor pause after each call that undoes a part, for as long as the call took.
  // For a process that goes on, on a node with other running processes.
  virtual void take_back_slowly() {}
  // The number of bytes from the start that are ready.
  virtual std::uint64_t ready_bytes() const = 0;
};

class CopyEngine {
 public:
  virtual ~CopyEngine() = default;
  virtual const char* name() const = 0;

  // Copies the pieces into the slot, writes the digest table behind the payload and returns the
  // root.
  //
  // The digests are of the stored bytes, or of the pages, which the caller leaves unchanged during
  // the call. If a byte changes between page and slot, the next load of the slot reports the
  // difference.
  //
  // After a failure the slot may hold new bytes; all access to slot and pages has ended.
  //
  // REQUIRES: slot.size() >= protocol::slot_bytes(...), slot aligned to 4 KiB.
  virtual Result<std::uint64_t> store(const PieceList& from, std::span<std::byte> slot) const = 0;

  // Copies the payload onto the pieces. Verifies each unit as written there, and the slot's digest
  // table, against `root`. A null piece is left out, but its digests in the table count.
  //
  // kDataLoss: a digest differs. Pieces may hold new bytes; all access to slot and pieces has
  // ended. kUnavailable: copies have ended in this engine. kFailedPrecondition: the copy is
  // impossible now; a later copy may work.
  virtual Status load(std::span<const std::byte> slot, std::uint64_t root,
                      const PieceList& to) const = 0;

  // Copies parts of chunks onto their pieces of `piece_bytes` each, and verifies each unit as
  // written there. Codes and state after a failure are those of load().
  virtual Status load_parts(std::span<const ChunkPart> parts, std::uint64_t piece_bytes,
                            const Fence* after) const = 0;

  // Announces copies of `pieces` pieces each on `threads` threads. Makes the memory for these
  // copies now, because the calling thread may wait here and a copy should not. A later copy makes
  // any memory that was refused here.
  virtual void prepare(std::uint64_t piece_bytes, std::size_t pieces, unsigned threads) const {
    static_cast<void>(piece_bytes), static_cast<void>(pieces), static_cast<void>(threads);
  }
  // The number of bytes up to which chunks of one load_parts() share one wait. 0: each chunk waits
  // alone.
  virtual std::uint64_t joined_bytes() const { return 0; }
  // The way in which pieces are copied, for a log or a status.
  virtual protocol::CopyStrategy strategy() const { return {}; }

  // Digests the pages in place, by kernels where the pages lie on a device. Copies no page. Digests
  // of null pieces keep their value. kUnsupported: this engine has no such kernels. REQUIRES:
  // `table` has units_per_piece() elements for each piece.
  virtual Status digests(const PieceList& of, std::span<std::uint64_t> table) const {
    static_cast<void>(of), static_cast<void>(table);
    return {Code::kUnsupported, "this copy engine cannot digest pages in place"};
  }

  // A fence behind all work now queued on `stream`, a stream of the engine in the sense of
  // larder.h. nullptr: all earlier work is done. kFailedPrecondition: the stream is being captured
  // into a graph.
  virtual Result<std::shared_ptr<const Fence>> fence(void* stream) const {
    static_cast<void>(stream);
    return std::shared_ptr<const Fence>();
  }

  // Whether copies of store() may go on for a moment after the death of this process. The copies of
  // a GPU may; those of threads end with the process. The shim notes the answer in the lock file of
  // its session before the first store by this engine, and larderd then keeps the slots of a dead
  // writer for kDeviceSettlingMs longer.
  virtual bool outlives_process() const { return false; }

  // Prepares `memory`, a mapping of `file`. Engine, memory and file outlive the result. -1: no
  // other process prepares the same memory. nullptr: this engine needs no prepared memory.
  virtual std::unique_ptr<ReadyMemory> make_ready(std::span<std::byte> memory,
                                                  int file = -1) const {
    static_cast<void>(memory), static_cast<void>(file);
    return nullptr;
  }
};

// Copies a slot's digest table into `table` and verifies the table against the root. The verified
// table proves parts of the chunk even after the slot has changed. kDataLoss: the table does not
// match. REQUIRES: `table` has digest_count(payload_bytes, its piece_bytes) elements.
Status verified_digests(std::span<const std::byte> slot, std::uint64_t payload_bytes,
                        std::uint64_t root, std::span<std::uint64_t> table);

// Log lines about an engine's life. `level` is info, warning or error.
using Log = std::function<void(std::string_view level, std::string_view text)>;

// 0: host memory, or this process has no CUDA. Otherwise a number that all pages of one device in
// one context share. A failure: the place of the page is unknown, so a copy must not touch the
// page.
Result<std::uint64_t> device_of(const void* page);
// The engine of the device and context of `page`. REQUIRES: device_of(page) is not 0. Throws
// std::bad_alloc.
Result<std::unique_ptr<CopyEngine>> device_copy_engine(const void* page, Log log);

// The engine for host memory: the product on CPU engines, the yardstick elsewhere. Chooses its
// inner loop for the processor at first use. Static lifetime.
const CopyEngine& host_copy_engine();

// The engines that a client may choose from. `host` has static lifetime.
struct CopyEngines {
  using MakeDevice = Result<std::unique_ptr<CopyEngine>> (*)(const void* page, Log log);
  // Implicit: most clients want the product's engine of a device.
  // NOLINTNEXTLINE(google-explicit-constructor)
  CopyEngines(const CopyEngine& host_engine, MakeDevice device_engine = device_copy_engine)
      : host(host_engine), device(device_engine) {}

  const CopyEngine& host;
  MakeDevice device;
};

}  // namespace larder::copy
