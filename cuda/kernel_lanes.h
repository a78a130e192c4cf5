// KernelLanes: the two streams that all kernels of an engine run on, one for each direction, whichever threads copy: so that together they take no more
// multiprocessors than the engine has for them. One direction alone has all of them, and both at once have half each.
//
// A lane's kernels run one after the other. So nothing may stand there that has to wait for anything else, the engine's own work above all: what a
// kernel comes behind is waited for before it is launched. Thread-safe. REQUIRES of all functions: the context is current.
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
  // `blocks`: of all kernels that run at once. kInvalidArgument: less than 2, of which a direction would have none.
  static Result<std::unique_ptr<KernelLanes>> make(ContextPtr context, unsigned blocks);
  ~KernelLanes();
  KernelLanes(const KernelLanes&) = delete;
  KernelLanes& operator=(const KernelLanes&) = delete;

  using Launch = std::function<Status(unsigned blocks, Handle stream)>;
  // Queues one kernel, which counts as under way from then on, also where this fails: the caller waits for the lane and calls ended().
  Status launch(Direction direction, const Launch& kernel);
  void ended(Direction direction, unsigned kernels);
  Handle stream(Direction direction) const { return lane(direction).stream; }

 private:
  struct Lane {
    Handle stream = nullptr;
    Handle last = nullptr;  // an event behind the last kernel that has all blocks
    unsigned under_way = 0;
    unsigned with_all = 0;  // of these, kernels that may have all blocks
  };
  KernelLanes(ContextPtr context, unsigned blocks) : context_(std::move(context)), driver_(context_->driver()), blocks_(blocks) {}
  const Lane& lane(Direction direction) const { return lanes_[static_cast<std::size_t>(direction)]; }

  const ContextPtr context_;
  const Driver& driver_;
  const unsigned blocks_;
  std::mutex mutex_;
  std::array<Lane, 2> lanes_;  // their counts are under the mutex
};

}  // namespace larder::copy::cuda
