#include "cuda/copy_lanes.h"

#include <algorithm>

namespace larder::copy::cuda {

Result<std::unique_ptr<CopyLanes>> CopyLanes::make(ContextPtr context) {
  const ContextScope scope(context->driver(), context->handle());
  if (!scope.status().ok()) return scope.status();
  // Made before the streams: after a failure half-way the destructor frees the existing ones.
  std::unique_ptr<CopyLanes> made(new CopyLanes(std::move(context)));
  const Driver& driver = made->driver_;
  for (Lane& lane : made->lanes_) {
    for (Handle& stream : lane.streams)
      if (Status status = make_stream(driver, stream); !status.ok()) return status;
    for (Handle& event : lane.ended)
      if (Status status =
              driver.status(driver->event_create(&event, kEventDisableTiming), "cuEventCreate");
          !status.ok())
        return status;
  }
  return made;
}

CopyLanes::~CopyLanes() {
  const ContextScope scope(driver_, context_->handle());
  for (const Lane& lane : lanes_) {
    for (const Handle event : lane.ended)
      if (event != nullptr) driver_->event_destroy(event);
    for (const Handle stream : lane.streams)
      if (stream != nullptr) driver_->stream_destroy(stream);
  }
}

Status CopyLanes::copy(Direction direction, const CopyList& copies, BatchUse& batches,
                       Handle behind) {
  CopyList batch;
  // A batch ends at an exact number of bytes, and not of pieces: the model's own small copies wait
  // behind bytes.
  std::uint64_t room = kBatchBytes;
  for (std::size_t i = 0; i < copies.bytes.size(); ++i)
    for (std::size_t at = 0; at < copies.bytes[i];) {
      const std::size_t here = std::min<std::size_t>(room, copies.bytes[i] - at);
      batch.add(copies.to[i] + at, copies.from[i] + at, here);
      at += here;
      room -= here;
      if (room != 0) continue;
      if (Status status = copy_batch(direction, batch, batches, behind); !status.ok())
        return status;
      batch = {};
      room = kBatchBytes;
    }
  return batch.bytes.empty() ? Status() : copy_batch(direction, batch, batches, behind);
}

// The mutex is held for a batch, so that the batches of several threads may alternate. A wait for
// an event covers the latest recording before the wait, and the event of the batch that must have
// ended is recorded anew only by a later batch.
Status CopyLanes::copy_batch(Direction direction, CopyList& batch, BatchUse& batches,
                             Handle behind) {
  Lane& lane = lanes_[static_cast<std::size_t>(direction)];
  const std::lock_guard lock(lane.mutex);
  const std::size_t here = lane.queued % lane.streams.size();
  const Handle stream = lane.streams[here], ended = lane.ended[here];
  // After a failure or an exception copies may run without an event to wait for.
  struct Unqueued {
    const Driver& driver;
    Handle stream;
    bool queued = false;
    ~Unqueued() {
      if (!queued) await_stream(driver, stream);
    }
  } unqueued{driver_, stream};
  Status status;
  // The order between batches is kept on the device, by events. No thread of the engine waits
  // here.
  if (lane.queued != 0)
    status = driver_.status(driver_->stream_wait_event(stream, lane.ended[1 - here], 0),
                            "cuStreamWaitEvent");
  if (status.ok()) status = batches.copy(driver_, batch, stream);
  if (status.ok()) status = driver_.status(driver_->event_record(ended, stream), "cuEventRecord");
  if (status.ok())  // mutation: stream-after-lane
    status = driver_.status(driver_->stream_wait_event(behind, ended, 0), "cuStreamWaitEvent");
  unqueued.queued = status.ok();
  lane.queued += status.ok();
  return status;
}

}  // namespace larder::copy::cuda
