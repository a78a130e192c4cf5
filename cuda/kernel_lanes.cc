#include "cuda/kernel_lanes.h"

namespace larder::copy::cuda {

Result<std::unique_ptr<KernelLanes>> KernelLanes::make(ContextPtr context, unsigned blocks) {
  const ContextScope scope(context->driver(), context->handle());
  if (!scope.status().ok()) return scope.status();
  std::unique_ptr<KernelLanes> made(new KernelLanes(std::move(context), blocks));
  const Driver& driver = made->driver_;
  for (Lane& lane : made->lanes_) {
    if (Status status = make_stream(driver, lane.stream); !status.ok()) return status;
    if (Status status =
            driver.status(driver->event_create(&lane.last, kEventDisableTiming), "cuEventCreate");
        !status.ok())
      return status;
  }
  return made;
}

KernelLanes::~KernelLanes() {
  const ContextScope scope(driver_, context_->handle());
  for (const Lane& lane : lanes_) {
    if (lane.last != nullptr) driver_->event_destroy(lane.last);
    if (lane.stream != nullptr) driver_->stream_destroy(lane.stream);
  }
}

// A kernel gets all blocks only while the other lane is empty. The first kernel on the other lane
// then waits on the device for the kernels with all blocks. Later kernels get half, or wait for the
// other lane, where one block is all.
Status KernelLanes::launch(Direction direction, const Launch& kernel) {
  const std::lock_guard lock(mutex_);
  Lane& own = lanes_[static_cast<std::size_t>(direction)];
  const Lane& other = lanes_[1 - static_cast<std::size_t>(direction)];
  const bool all = other.under_way == 0 || blocks_ == 1;
  // Before anything can fail: the caller calls ended() in any case.
  ++own.under_way;
  if (other.with_all != 0)
    if (Status status = driver_.status(driver_->stream_wait_event(own.stream, other.last, 0),
                                       "cuStreamWaitEvent");
        !status.ok())
      return status;
  if (Status status = kernel(all ? blocks_ : blocks_ / 2, own.stream); !all || !status.ok())
    return status;
  Status status = driver_.status(driver_->event_record(own.last, own.stream), "cuEventRecord");
  if (status.ok())
    ++own.with_all;
  else
    // Waits under the mutex, because kernels of the other lane have no event to wait for.
    await_stream(driver_, own.stream);
  return status;
}

void KernelLanes::ended(Direction direction, unsigned kernels) {
  const std::lock_guard lock(mutex_);
  Lane& own = lanes_[static_cast<std::size_t>(direction)];
  own.under_way -= kernels;
  if (own.under_way == 0) own.with_all = 0;
}

}  // namespace larder::copy::cuda
