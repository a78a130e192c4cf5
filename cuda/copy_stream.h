// CopyStream: a CUDA stream with the pinned memory of its current copy. CopyStreams: the pool of
// streams.
//
// One thread at a time owns a stream. REQUIRES of all functions: the context of the stream is
// current. finish() returns after all queued work has ended, also on failure. A stream goes back to
// the pool only after finish(), so that no copy writes after the return of its call.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/copy_engine.h"
#include "cuda/device_context.h"
#include "cuda/kernel_lanes.h"
#include "cuda/pinned_buffer.h"

namespace larder::copy::cuda {

// Copies of bytes, as three lists of one length for the driver. Adjacent copies are not joined: two
// neighbours may lie in two allocations, and no single copy may cross a border.
struct CopyList {
  std::vector<DevicePtr> to, from;
  std::vector<std::size_t> bytes;
  void add(DevicePtr to_address, DevicePtr from_address, std::size_t count);
  // Adds all non-null pieces, to or from `packed`, which holds the pieces in order from its start.
  // A piece across two registrations becomes two copies.
  void add_pieces(bool gather, const PieceList& list, const DeviceRange& packed);
};

// Whether the streams of a pool copy in batches. Thread-safe.
class BatchUse {
 public:
  explicit BatchUse(Log log) : log_(std::move(log)) {}
  bool wanted() const { return wanted_; }
  // Ends batches for good and logs `why` once. A driver without the function gives no log line.
  void stop(ResultCode result, std::string_view why);

 private:
  const Log log_;
  std::atomic<bool> wanted_{true};
};

class CudaFence;

class CopyStream {
 public:
  // `batches` outlives the stream.
  static Result<std::unique_ptr<CopyStream>> make(ContextPtr context, BatchUse& batches);
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // Later work on the stream comes after `fence`. The fence lives until finish().
  Status wait_for(const Fence& fence);
  // Queues all copies, in one call where the driver can. The stream reads sources in order, so a
  // page is read only after the fence.
  //
  // A refusal for a reason other than the state of the device ends batches: this list and all later
  // lists are copied one by one.
  Status copy(CopyList& list);
  // Launches a kernel on a lane of `lanes`. Lanes must not wait, so this function first waits on
  // the host. kCopies: for all work queued here. kFence: for the fence alone, where the kernel and
  // the copies only read the pages.
  enum class Behind { kCopies, kFence };
  Status launch(KernelLanes& lanes, Direction direction, Behind behind, const KernelLanes::Launch& kernel);
  // The stream for the next copy. Marks the stream as busy.
  Handle queue() {
    busy_ = true;
    return stream_;
  }
  bool busy() const { return busy_ || kernels_ != 0; }
  // Blocks the thread without use of a processor until the fence of the stream is reached.
  Status await_fence() const;
  // Waits until all copies are done. Kernels may still run.
  Status finish_copies();
  // Waits once, without use of a processor, until all work is done. Returns at once if the stream
  // is idle.
  Status finish();

  PinnedBuffer pieces;   // addresses for the kernels
  PinnedBuffer digests;  // from the kernels
  PinnedBuffer staging;  // for slots that are not registered

 private:
  CopyStream(ContextPtr context, BatchUse& batches);
  Status copy_one_by_one(const CopyList& list);
  const ContextPtr context_;
  const Driver& driver_;
  BatchUse& batches_;
  Handle stream_ = nullptr;
  Handle done_ = nullptr;
  bool busy_ = false;                  // copies are queued
  const CudaFence* behind_ = nullptr;  // the fence before the queued copies
  KernelLanes* lanes_ = nullptr;       // the lanes of the launched kernels
  Direction direction_{};
  unsigned kernels_ = 0;  // launched and not yet waited for
};

// Thread-safe. Holds as many streams as threads ever copied at once.
class CopyStreams {
 public:
  explicit CopyStreams(
      ContextPtr context, Log log = [](std::string_view, std::string_view) {})
      : context_(std::move(context)), batches_(std::move(log)) {}
  ~CopyStreams();

  // Owns a stream for a scope.
  class Lease {
   public:
    Lease(CopyStreams& pool, std::unique_ptr<CopyStream> stream) : pool_(&pool), stream_(std::move(stream)) {}
    Lease(Lease&&) = default;
    ~Lease() {
      if (stream_ != nullptr) pool_->give_back(std::move(stream_));
    }
    CopyStream& operator*() const { return *stream_; }
    CopyStream* operator->() const { return stream_.get(); }

   private:
    CopyStreams* pool_;
    std::unique_ptr<CopyStream> stream_;
  };
  // Takes a stream. The work of the stream comes after the fence `after`, if any.
  Result<Lease> take(const Fence* after = nullptr);
  // Makes at least `streams` streams with pinned memory of these sizes each; 0 stands for none. A
  // copy makes any memory that was refused here. REQUIRES: no copy is under way.
  struct Sizes {
    std::size_t pieces = 0, digests = 0, staging = 0;
  };
  Status reserve(std::size_t streams, const Sizes& bytes);

 private:
  Result<Lease> any();
  void give_back(std::unique_ptr<CopyStream> stream);
  const ContextPtr context_;
  BatchUse batches_;
  std::mutex mutex_;
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<CopyStream>> free_;
};

}  // namespace larder::copy::cuda
