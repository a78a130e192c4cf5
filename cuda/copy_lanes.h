// CopyLanes: the order of all copies by the device's copy engines, of all threads together. The
// device copies in the order in which copies become ready, so the engine's own small copies (the
// block tables and the tokens of a step) wait behind Larder's ready copies. CopyLanes keeps few
// bytes ready: copies go in batches, and a batch waits on the device for the batch before it in the
// same direction. No thread waits.
//
// Consecutive batches lie on different streams, because the device may run the whole queue of one
// stream before it looks at another stream.
//
// Thread-safe. REQUIRES of all functions: the context is current.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "cuda/copy_list.h"
#include "cuda/device_context.h"
#include "cuda/strategy_table.h"

namespace larder::copy::cuda {

class CopyLanes {
 public:
  // Bytes of one batch, and the most that are ready in one direction. A piece across a border is
  // divided. Measured on an H100 (docs/performance/notes/2026-11.md): each wait for the batch
  // before costs 7 us of the link. 16 MiB copy 2% faster and slow a decoding model by half as much
  // again; two batches of 4 MiB at once copy slower and slow the model more.
  static constexpr std::uint64_t kBatchBytes = 8 << 20;

  static Result<std::unique_ptr<CopyLanes>> make(ContextPtr context);
  ~CopyLanes();
  CopyLanes(const CopyLanes&) = delete;
  CopyLanes& operator=(const CopyLanes&) = delete;

  // Queues all copies. Later work on the stream `behind` comes after them. After a failure the
  // copies that no work on `behind` waits for have ended. REQUIRES: the copies need not wait for
  // the engine's work.
  Status copy(Direction direction, const CopyList& copies, BatchUse& batches, Handle behind);

 private:
  struct Lane {
    std::mutex mutex;
    std::array<Handle, 2> streams{}, ended{};  // used in turns
    std::uint64_t queued = 0;                  // batches
  };
  explicit CopyLanes(ContextPtr context)
      : context_(std::move(context)), driver_(context_->driver()) {}
  Status copy_batch(Direction direction, CopyList& batch, BatchUse& batches, Handle behind);

  const ContextPtr context_;
  const Driver& driver_;
  std::array<Lane, 2> lanes_;
};

}  // namespace larder::copy::cuda
