#include "cuda/copy_stream.h"

#include <utility>

namespace larder::copy::cuda {

CopyStream::CopyStream(ContextPtr context, BatchUse& batches, CopyLanes* lanes)
    : pieces(*context),
      digests(*context),
      staging(*context),
      context_(std::move(context)),
      driver_(context_->driver()),
      batches_(batches),
      copy_lanes_(lanes) {}

Result<std::unique_ptr<CopyStream>> CopyStream::make(ContextPtr context, BatchUse& batches,
                                                     CopyLanes* lanes) {
  std::unique_ptr<CopyStream> made(new CopyStream(std::move(context), batches, lanes));
  const Driver& driver = made->driver_;
  if (Status status = make_stream(driver, made->stream_); !status.ok()) return status;
  if (Status status = driver.status(
          driver->event_create(&made->done_, kEventBlockingSync | kEventDisableTiming),
          "cuEventCreate");
      !status.ok())
    return status;
  return made;
}

CopyStream::~CopyStream() {
  // An exception may leave work queued. The memory of the call must outlast such work.
  if (busy()) static_cast<void>(finish());
  if (done_ != nullptr) driver_->event_destroy(done_);
  if (stream_ != nullptr) driver_->stream_destroy(stream_);
}

Status CopyStream::launch(KernelLanes& lanes, Direction direction, Behind behind,
                          const KernelLanes::Launch& kernel) {
  // On the host and not by an event: a waiting kernel would hold up the kernels of all other
  // threads on the lane.
  const bool after_copies = behind == Behind::kCopies && busy_;  // mutation: digests-after-copies
  Status ready = after_copies ? finish() : await_fence();        // mutation: kernels-after-fence
  if (!ready.ok()) return ready;
  lanes_ = &lanes;
  direction_ = direction;
  // Before the launch: after a failed launch the kernel still counts as under way, see
  // KernelLanes::launch().
  ++kernels_;
  return lanes.launch(direction, kernel);
}

Status CopyStream::copy(Direction direction, CopyList& list) {
  if (list.bytes.empty()) return {};
  if (Status status = await_fence(); !status.ok()) return status;  // mutation: copies-after-fence
  return copy_lanes_ == nullptr ? batches_.copy(driver_, list, queue())
                                : copy_lanes_->copy(direction, list, batches_, queue());
}

// All chunks of one request share one fence. A fence that one copy has waited for is reached for
// all.
Status CopyStream::await_fence() {
  const Fence* const behind = std::exchange(behind_, nullptr);
  return behind == nullptr ? Status() : behind->wait();
}

// Waits for copies and kernels at once: the stream waits for the lane, and the host for the stream.
// If the event fails, the host waits for both.
Status CopyStream::finish() {
  if (!busy()) return {};
  Status status;
  Handle last = stream_;
  if (kernels_ != 0) {
    const Handle lane = lanes_->stream(direction_);
    status = driver_.status(driver_->event_record(done_, lane), "cuEventRecord");
    if (status.ok() && busy_)
      status = driver_.status(driver_->stream_wait_event(stream_, done_, 0), "cuStreamWaitEvent");
    if (!busy_) last = nullptr;
  }
  if (status.ok() && last != nullptr)
    status = driver_.status(driver_->event_record(done_, last), "cuEventRecord");
  if (status.ok()) status = driver_.status(driver_->event_synchronize(done_), "cuEventSynchronize");
  if (!status.ok()) {
    // The caller may free its pages after the return, so the wait goes on without the event.
    if (last != nullptr) await_stream(driver_, stream_);  // mutation: refused-wait-goes-on
    if (kernels_ != 0) await_stream(driver_, lanes_->stream(direction_));
  }
  if (kernels_ != 0) lanes_->ended(direction_, std::exchange(kernels_, 0));
  busy_ = false;
  return status;
}

CopyStreams::~CopyStreams() {
  const ContextScope scope(context_->driver(), context_->handle());
  // The streams are destroyed here, while the context is current.
  free_.clear();
}

Result<CopyStreams::Lease> CopyStreams::take(const Fence* after) {
  Result<Lease> stream = any();
  if (stream.ok()) (*stream)->wait_for(after);
  return stream;
}

Result<CopyStreams::Lease> CopyStreams::any() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<CopyStream> stream = std::move(free_.back());
      free_.pop_back();
      return Lease(*this, std::move(stream));
    }
  }
  Result<std::unique_ptr<CopyStream>> made = CopyStream::make(context_, batches_, lanes_);
  if (!made.ok()) return made.status();
  const std::lock_guard lock(mutex_);
  // give_back() runs in destructors, where an allocation must not throw.
  free_.reserve(++made_);
  return Lease(*this, std::move(made).value());
}

Status CopyStreams::reserve(std::size_t streams, const Sizes& bytes) {
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return scope.status();
  // All leases are held until the end, so any() makes new streams instead of handing out the same
  // one.
  std::vector<Lease> all;
  while (all.size() < streams) {
    Result<Lease> stream = any();
    if (!stream.ok()) return stream.status();
    all.push_back(std::move(stream).value());
    CopyStream& one = *all.back();
    for (const auto& [buffer, size] :
         {std::pair(&one.pieces, bytes.pieces), std::pair(&one.digests, bytes.digests),
          std::pair(&one.staging, bytes.staging)})
      if (Status status = buffer->ensure(size); !status.ok()) return status;
  }
  return {};
}

void CopyStreams::give_back(std::unique_ptr<CopyStream> stream) {
  if (stream->busy()) static_cast<void>(stream->finish());  // mutation: pooled-stream-idle
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(stream));  // any() reserved the place
}

}  // namespace larder::copy::cuda
