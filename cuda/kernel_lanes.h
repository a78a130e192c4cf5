// KernelLanes: the two streams for all kernels of an engine, one for each direction. However many
// threads copy, all kernels together run on at most `blocks` multiprocessors. One direction alone
// gets all of them; both at once get half each. With one multiprocessor the kernels of both
// directions alternate.
//
// The kernels of a lane run one after the other, so a kernel that waits would delay all kernels
// behind it. A caller therefore waits before the launch for the engine's work and for its own
// copies. On the lane a kernel waits only for Larder's other kernels.
//
// Thread-safe. REQUIRES of all functions: the context is current.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>

#include "cuda/device_context.h"
#include "cuda/strategy_table.h"

namespace larder::copy::cuda {

class KernelLanes {
 public:
  // `blocks`: the multiprocessors for all kernels at once. REQUIRES: at least 1.
  static Result<std::unique_ptr<KernelLanes>> make(ContextPtr context, unsigned blocks);
  ~KernelLanes();
  KernelLanes(const KernelLanes&) = delete;
  KernelLanes& operator=(const KernelLanes&) = delete;

  using Launch = std::function<Status(unsigned blocks, Handle stream)>;
  // Queues one kernel. The kernel counts as under way from now on, also after a failure: the caller
  // waits for the lane and calls ended().
  Status launch(Direction direction, const Launch& kernel);
  void ended(Direction direction, unsigned kernels);
  Handle stream(Direction direction) const { return lane(direction).stream; }

 private:
  struct Lane {
    Handle stream = nullptr;
    Handle last = nullptr;  // event behind the last kernel with all blocks
    unsigned under_way = 0;
    unsigned with_all = 0;  // kernels under way that may have all blocks
  };
  KernelLanes(ContextPtr context, unsigned blocks)
      : context_(std::move(context)), driver_(context_->driver()), blocks_(blocks) {}
  const Lane& lane(Direction direction) const {
    return lanes_[static_cast<std::size_t>(direction)];
  }

  const ContextPtr context_;
  const Driver& driver_;
  const unsigned blocks_;
  std::mutex mutex_;
  std::array<Lane, 2> lanes_;  // the mutex guards the counts
};

}  // namespace larder::copy::cuda
