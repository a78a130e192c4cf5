// CopyLanes: the order of all copies by the device's copy engines, of all threads together. The
// device copies in the order in which copies become ready, so the engine's own small copies (the
// block tables and the tokens of a step) wait behind Larder's ready copies. CopyLanes keeps few
// bytes ready: copies go in batches, and a batch waits on the device for an earlier one. No thread
// waits.
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
#include <vector>

#include "cuda/copy_list.h"
#include "cuda/device_context.h"
#include "cuda/strategy_table.h"

namespace larder::copy::cuda {

class CopyLanes {
 public:
  // Bytes of one batch. A piece across a border is divided.
  static constexpr std::uint64_t kBatchBytes = 4 << 20;
  // Batches that may be ready at once, by direction. Two loads overlap their beginnings and ends,
  // because a request waits for a load.
  static constexpr std::array<std::size_t, 2> kReady{1, 2};
  static constexpr std::uint64_t ready_bytes(Direction direction) {
    return kReady[static_cast<std::size_t>(direction)] * kBatchBytes;
  }

  static Result<std::unique_ptr<CopyLanes>> make(ContextPtr context);
  ~CopyLanes();
  CopyLanes(const CopyLanes&) = delete;
  CopyLanes& operator=(const CopyLanes&) = delete;

  // Queues all copies. Later work on the stream `behind` comes after them. After a failure the
  // copies that no work on `behind` waits for have ended. REQUIRES: the copies need not wait for the
  // engine's work.
  Status copy(Direction direction, const CopyList& copies, BatchUse& batches, Handle behind);

 private:
  struct Lane {
    std::mutex mutex;
    std::vector<Handle> streams, ended;  // used in turns: one more than kReady
    std::uint64_t queued = 0;            // batches
  };
  explicit CopyLanes(ContextPtr context) : context_(std::move(context)), driver_(context_->driver()) {}
  Status copy_batch(Direction direction, CopyList& batch, BatchUse& batches, Handle behind);

  const ContextPtr context_;
  const Driver& driver_;
  std::array<Lane, 2> lanes_;
};

}  // namespace larder::copy::cuda
