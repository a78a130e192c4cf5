#include "cuda/fences.h"

namespace larder::copy::cuda {

Result<std::shared_ptr<const Fence>> Fences::record(Handle stream) {
  const Driver& driver = context_->driver();
  const ContextScope scope(driver, context_->handle());
  if (!scope.status().ok()) return scope.status();
  // An event recorded during a capture would belong to the graph, and so would a copy that waits
  // for it. A recording on the legacy stream would even invalidate the capture of another stream.
  // This query answers with an error there and disturbs no capture.
  int capture = kNotCapturing;
  if (Status status =
          driver.status(driver->stream_is_capturing(stream, &capture), "cuStreamIsCapturing");
      !status.ok())
    return status;
  if (capture != kNotCapturing)  // mutation: fence-outside-capture
    return Status(
        Code::kFailedPrecondition,
        "the stream is being captured into a CUDA graph: no copy can be queued behind the capture");
  const Result<Handle> event = take();
  if (!event.ok()) return event.status();
  std::shared_ptr<const CudaFence> fence;
  try {
    fence = std::make_shared<const CudaFence>(shared_from_this(), *event);
  } catch (...) {
    give_back(*event);
    throw;
  }
  // A wait for an event covers the latest recording before the wait, so reuse leaves earlier waits
  // intact.
  if (Status status = driver.status(driver->event_record(*event, stream), "cuEventRecord");
      !status.ok())
    return status;
  return std::shared_ptr<const Fence>(std::move(fence));
}

Status CudaFence::wait() const {
  if (reached_) return {};
  const Driver& driver = owner_->context_->driver();
  const ContextScope scope(driver, owner_->context_->handle());
  if (!scope.status().ok()) return scope.status();
  Status status = driver.status(driver->event_synchronize(event_), "cuEventSynchronize");
  if (status.ok()) reached_ = true;  // mutation: fence-reached
  return status;
}

// The events use blocking synchronisation: where larderd copies, the host waits for a whole step of
// the model, and should not occupy a processor. REQUIRES: the context is current.
Result<Handle> Fences::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      const Handle event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  const Driver& driver = context_->driver();
  Handle event = nullptr;
  if (Status status = driver.status(
          driver->event_create(&event, kEventBlockingSync | kEventDisableTiming), "cuEventCreate");
      !status.ok())
    return status;
  return event;
}

void Fences::give_back(Handle event) {
  {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kMaxFree) return free_.push_back(event);  // kMaxFree are reserved
  }
  const ContextScope scope(context_->driver(), context_->handle());
  if (scope.status().ok()) context_->driver()->event_destroy(event);
}

Fences::~Fences() {
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return;
  for (const Handle event : free_) context_->driver()->event_destroy(event);
}

}  // namespace larder::copy::cuda
