#include "cuda/copy_stream.h"

#include <utility>

#include "cuda/fences.h"

namespace larder::copy::cuda {
namespace {

// An error of the device itself. Another kind of copy would fail too, or must not be tried.
bool is_of_the_device(ResultCode result) {
  return result == kOutOfMemory || is_capture_error(result) || (result >= kIllegalAddress && result < kNotPermitted);
}

}  // namespace

void CopyList::add(DevicePtr to_address, DevicePtr from_address, std::size_t count) {
  to.push_back(to_address);
  from.push_back(from_address);
  bytes.push_back(count);
}

void CopyList::add_pieces(bool gather, const PieceList& list, const DeviceRange& packed) {
  for (std::size_t i = 0; i < list.pieces.size(); ++i) {
    if (list.pieces[i] == nullptr) continue;
    auto piece = reinterpret_cast<DevicePtr>(list.pieces[i]);
    packed.for_each(i * list.piece_bytes, list.piece_bytes, [&](DevicePtr in_packed, std::size_t count) {
      gather ? add(in_packed, piece, count) : add(piece, in_packed, count);
      piece += count;
    });
  }
}

void BatchUse::stop(ResultCode result, std::string_view why) {
  if (wanted_.exchange(false) && result != kNotSupported)
    log_("warning", "copies of a GPU are made one by one from here on, and not in batches: " + std::string(why));
}

CopyStream::CopyStream(ContextPtr context, BatchUse& batches)
    : pieces(*context),
      digests(*context),
      staging(*context),
      context_(std::move(context)),
      driver_(context_->driver()),
      batches_(batches) {}

Result<std::unique_ptr<CopyStream>> CopyStream::make(ContextPtr context, BatchUse& batches) {
  std::unique_ptr<CopyStream> made(new CopyStream(std::move(context), batches));
  const Driver& driver = made->driver_;
  if (Status status = make_stream(driver, made->stream_); !status.ok()) return status;
  if (Status status =
          driver.status(driver->event_create(&made->done_, kEventBlockingSync | kEventDisableTiming), "cuEventCreate");
      !status.ok())
    return status;
  return made;
}

CopyStream::~CopyStream() {
  if (busy()) static_cast<void>(finish());
  if (done_ != nullptr) driver_->event_destroy(done_);
  if (stream_ != nullptr) driver_->stream_destroy(stream_);
}

// All chunks of one request share one fence. After the first copy behind the fence has ended, the
// others skip the wait.
Status CopyStream::wait_for(const Fence& fence) {
  const auto& point = static_cast<const CudaFence&>(fence);
  if (point.reached()) return {};
  Status status = driver_.status(driver_->stream_wait_event(queue(), point.event(), 0), "cuStreamWaitEvent");
  if (status.ok()) behind_ = &point;
  return status;
}

Status CopyStream::launch(KernelLanes& lanes, Direction direction, Behind behind, const KernelLanes::Launch& kernel) {
  Status ready;
  if (behind == Behind::kCopies && busy_) ready = finish();
  if (behind == Behind::kFence) ready = await_fence();
  if (!ready.ok()) return ready;
  lanes_ = &lanes;
  direction_ = direction;
  ++kernels_;
  return lanes.launch(direction, kernel);
}

Status CopyStream::copy(CopyList& list) {
  if (list.bytes.empty()) return {};
  if (!driver_.has_batch() || !batches_.wanted() || list.bytes.size() == 1) return copy_one_by_one(list);
  CopyAttributes attributes;
  attributes.source_access_order = kAccessOrderStream;
  // A hint to the driver: leave the multiprocessors to the model.
  attributes.flags = kBesideCompute;
  std::size_t start = 0, failed = 0;
  const ResultCode result = driver_->memcpy_batch(list.to.data(), list.from.data(), list.bytes.data(), list.bytes.size(),
                                                  &attributes, &start, 1, &failed, queue());
  if (result == kSuccess) return {};
  const Status status = driver_.status(result, "cuMemcpyBatchAsync");
  if (is_of_the_device(result)) return status;
  batches_.stop(result, status.text() + ", copy " + std::to_string(failed) + " of " + std::to_string(list.bytes.size()));
  // Some copies may run twice, with the same bytes to the same place.
  return copy_one_by_one(list);
}

Status CopyStream::copy_one_by_one(const CopyList& list) {
  for (std::size_t i = 0; i < list.bytes.size(); ++i)
    if (Status status = driver_.status(driver_->memcpy_async(list.to[i], list.from[i], list.bytes[i], queue()), "cuMemcpyAsync");
        !status.ok())
      return status;
  return {};
}

Status CopyStream::await_fence() const {
  return behind_ == nullptr || behind_->reached() ? Status() : behind_->wait();
}

Status CopyStream::finish_copies() {
  if (!busy_) return {};
  Status status = driver_.status(driver_->event_record(done_, stream_), "cuEventRecord");
  if (status.ok()) status = driver_.status(driver_->event_synchronize(done_), "cuEventSynchronize");
  if (!status.ok()) return status;  // finish() waits for the stream
  busy_ = false;
  if (const CudaFence* const behind = std::exchange(behind_, nullptr); behind != nullptr) behind->note_reached();
  return {};
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
    if (status.ok() && busy_) status = driver_.status(driver_->stream_wait_event(stream_, done_, 0), "cuStreamWaitEvent");
    if (!busy_) last = nullptr;
  }
  if (status.ok() && last != nullptr) status = driver_.status(driver_->event_record(done_, last), "cuEventRecord");
  if (status.ok()) status = driver_.status(driver_->event_synchronize(done_), "cuEventSynchronize");
  if (!status.ok()) {
    if (last != nullptr) await_stream(driver_, stream_);
    if (kernels_ != 0) await_stream(driver_, lanes_->stream(direction_));
  }
  if (kernels_ != 0) lanes_->ended(direction_, std::exchange(kernels_, 0));
  const CudaFence* const behind = std::exchange(behind_, nullptr);
  if (status.ok() && behind != nullptr) behind->note_reached();
  busy_ = false;
  return status;
}

CopyStreams::~CopyStreams() {
  const ContextScope scope(context_->driver(), context_->handle());
  free_.clear();
}

Result<CopyStreams::Lease> CopyStreams::take(const Fence* after) {
  Result<Lease> stream = any();
  if (!stream.ok() || after == nullptr) return stream;
  if (Status status = (*stream)->wait_for(*after); !status.ok()) return status;
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
  Result<std::unique_ptr<CopyStream>> made = CopyStream::make(context_, batches_);
  if (!made.ok()) return made.status();
  const std::lock_guard lock(mutex_);
  free_.reserve(++made_);
  return Lease(*this, std::move(made).value());
}

Status CopyStreams::reserve(std::size_t streams, const Sizes& bytes) {
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return scope.status();
  std::vector<Lease> all;
  while (all.size() < streams) {
    Result<Lease> stream = any();
    if (!stream.ok()) return stream.status();
    all.push_back(std::move(stream).value());
    CopyStream& one = *all.back();
    for (const auto& [buffer, size] :
         {std::pair(&one.pieces, bytes.pieces), std::pair(&one.digests, bytes.digests), std::pair(&one.staging, bytes.staging)})
      if (Status status = buffer->ensure(size); !status.ok()) return status;
  }
  return {};
}

void CopyStreams::give_back(std::unique_ptr<CopyStream> stream) {
  if (stream->busy()) static_cast<void>(stream->finish());
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(stream));  // any() reserved the place
}

}  // namespace larder::copy::cuda
