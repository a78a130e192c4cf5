#include "cuda/copy_stream.h"

#include <utility>

#include "cuda/fences.h"

namespace larder::copy::cuda {

void CopyList::add(DevicePtr to_address, DevicePtr from_address, std::size_t count) {
  to.push_back(to_address);
  from.push_back(from_address);
  bytes.push_back(count);
}

void CopyList::add_pieces(bool gather, const PieceList& list, const std::byte* packed) {
  for (std::size_t i = 0; i < list.pieces.size(); ++i) {
    if (list.pieces[i] == nullptr) continue;
    const auto piece = reinterpret_cast<DevicePtr>(list.pieces[i]);
    const auto in_packed = reinterpret_cast<DevicePtr>(packed + i * list.piece_bytes);
    gather ? add(in_packed, piece, list.piece_bytes) : add(piece, in_packed, list.piece_bytes);
  }
}

CopyStream::CopyStream(ContextPtr context)
    : pieces(*context), digests(*context), staging(*context), context_(std::move(context)), driver_(context_->driver()) {}

Result<std::unique_ptr<CopyStream>> CopyStream::make(ContextPtr context) {
  std::unique_ptr<CopyStream> made(new CopyStream(std::move(context)));
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

// The chunks of one order have one fence: those that come when one has ended behind it do not wait.
Status CopyStream::wait_for(const Fence& fence) {
  const auto& point = static_cast<const CudaFence&>(fence);
  if (point.reached()) return {};
  Status status = driver_.status(driver_->stream_wait_event(queue(), point.event(), 0), "cuStreamWaitEvent");
  if (status.ok()) behind_ = &point;
  return status;
}

Status CopyStream::launch(KernelLanes& lanes, Direction direction, const KernelLanes::Launch& kernel) {
  if (busy_)
    if (Status status = finish(); !status.ok()) return status;
  lanes_ = &lanes;
  direction_ = direction;
  ++kernels_;
  return lanes.launch(direction, kernel);
}

Status CopyStream::copy(CopyList& list) {
  if (list.bytes.empty()) return {};
  if (driver_.has_batch() && list.bytes.size() > 1) {
    CopyAttributes attributes;
    attributes.source_access_order = kAccessOrderStream;
    attributes.flags = kBesideCompute;  // a hint: the model's multiprocessors are not for these copies
    std::size_t start = 0, failed = 0;
    const ResultCode result = driver_->memcpy_batch(list.to.data(), list.from.data(), list.bytes.data(), list.bytes.size(),
                                                    &attributes, &start, 1, &failed, queue());
    if (result != kNotSupported) return driver_.status(result, "cuMemcpyBatchAsync");
  }
  for (std::size_t i = 0; i < list.bytes.size(); ++i)
    if (Status status = driver_.status(driver_->memcpy_async(list.to[i], list.from[i], list.bytes[i], queue()), "cuMemcpyAsync");
        !status.ok())
      return status;
  return {};
}

// Where the event fails the stream itself is waited for.
Status CopyStream::finish() {
  const Handle stream = kernels_ != 0 ? lanes_->stream(direction_) : stream_;
  Status status = driver_.status(driver_->event_record(done_, stream), "cuEventRecord");
  if (status.ok()) status = driver_.status(driver_->event_synchronize(done_), "cuEventSynchronize");
  if (!status.ok()) await_stream(driver_, stream);
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
  Result<std::unique_ptr<CopyStream>> made = CopyStream::make(context_);
  if (!made.ok()) return made.status();
  const std::lock_guard lock(mutex_);
  free_.reserve(++made_);
  return Lease(*this, std::move(made).value());
}

void CopyStreams::give_back(std::unique_ptr<CopyStream> stream) {
  if (stream->busy()) static_cast<void>(stream->finish());
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(stream));  // any() made room for it
}

}  // namespace larder::copy::cuda
