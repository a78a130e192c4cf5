#include "cuda/copy_stream.h"

#include <chrono>
#include <thread>

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

// The engine's work comes first: copies have the least priority that there is. That is also the default, so that beside an engine whose streams
// have that one, as PyTorch's, a kernel of ours that has begun keeps its few multiprocessors until it ends.
Result<std::unique_ptr<CopyStream>> CopyStream::make(ContextPtr context) {
  std::unique_ptr<CopyStream> made(new CopyStream(std::move(context)));
  const Driver& driver = made->driver_;
  int least = 0, greatest = 0;
  if (Status status = driver.status(driver->ctx_get_stream_priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange");
      !status.ok())
    return status;
  if (Status status = driver.status(driver->stream_create_with_priority(&made->stream_, kStreamNonBlocking, least),
                                    "cuStreamCreateWithPriority");
      !status.ok())
    return status;
  if (Status status =
          driver.status(driver->event_create(&made->done_, kEventBlockingSync | kEventDisableTiming), "cuEventCreate");
      !status.ok())
    return status;
  return made;
}

CopyStream::~CopyStream() {
  if (busy_) static_cast<void>(finish());
  if (done_ != nullptr) driver_->event_destroy(done_);
  if (stream_ != nullptr) driver_->stream_destroy(stream_);
}

Status CopyStream::wait_for(const Fence& fence) {
  return driver_.status(driver_->stream_wait_event(queue(), static_cast<const CudaFence&>(fence).event(), 0),
                        "cuStreamWaitEvent");
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

// Where the event fails the stream itself is waited for: an error that is told may leave earlier work running, unless the context is lost,
// and then there is none.
Status CopyStream::finish() {
  busy_ = false;
  Status status = driver_.status(driver_->event_record(done_, stream_), "cuEventRecord");
  if (status.ok()) status = driver_.status(driver_->event_synchronize(done_), "cuEventSynchronize");
  // Refused only because somebody captures a graph, earlier work goes on.
  while (!status.ok() && is_capture_error(driver_->stream_synchronize(stream_)))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
