// CopyStream: a CUDA stream with the pinned memory of the one copy that is on it; and the pool of them.
//
// One thread at a time owns a stream. REQUIRES of all its functions: its context is current. What was queued has ended when finish() returns, also where
// it failed, and a stream is given back only after that: nobody writes behind a copy's back.
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

// Copies of bytes, in three lists of one length as the driver wants them. Neighbours are not joined: they may lie in two allocations, and
// no copy may cross from one into the other.
struct CopyList {
  std::vector<DevicePtr> to, from;
  std::vector<std::size_t> bytes;
  void add(DevicePtr to_address, DevicePtr from_address, std::size_t count);
  // Of all pieces that are there, to or from `packed`, where they stand one after the other from its start on. A piece that lies across two registrations is two copies.
  void add_pieces(bool gather, const PieceList& list, const DeviceRange& packed);
};

// Whether copies go in batches, of all streams of a pool. Thread-safe.
class BatchUse {
 public:
  explicit BatchUse(Log log) : log_(std::move(log)) {}
  bool wanted() const { return wanted_; }
  // A driver that has none is no news.
  void stop(ResultCode result, std::string_view why);

 private:
  const Log log_;
  std::atomic<bool> wanted_{true};
};

class CudaFence;

class CopyStream {
 public:
  // `batches` outlives it.
  static Result<std::unique_ptr<CopyStream>> make(ContextPtr context, BatchUse& batches);
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // What is queued comes behind `fence`, which lives until finish().
  Status wait_for(const Fence& fence);
  // In one call where the driver can. Sources are read in the stream's order: a page of the engine is not read before its fence. A batch that is refused for
  // another reason than the device's state is the last one: its copies, and all from then on, are made one by one.
  Status copy(CopyList& list);
  // A kernel, on a lane of `lanes`, which waits for nothing there: what it comes behind is waited for here, first. That is all that was queued, or, where it only
  // reads what these copies read too, the fence.
  enum class Behind { kCopies, kFence };
  Status launch(KernelLanes& lanes, Direction direction, Behind behind, const KernelLanes::Launch& kernel);
  // What the next copy is queued on; it counts as begun.
  Handle queue() {
    busy_ = true;
    return stream_;
  }
  bool busy() const { return busy_ || kernels_ != 0; }
  // Waits on the host, without a processor, for the fence that the stream waits for.
  Status await_fence() const;
  // Waits until all copies are done; kernels may run on.
  Status finish_copies();
  // Waits until all of it is done, once, without a processor. Returns at once where no work is under way.
  Status finish();

  PinnedBuffer pieces;   // addresses for the kernels
  PinnedBuffer digests;  // of the kernels
  PinnedBuffer staging;  // for slots that are not pinned

 private:
  CopyStream(ContextPtr context, BatchUse& batches);
  Status copy_one_by_one(const CopyList& list);
  const ContextPtr context_;
  const Driver& driver_;
  BatchUse& batches_;
  Handle stream_ = nullptr;
  Handle done_ = nullptr;
  bool busy_ = false;                  // the stream
  const CudaFence* behind_ = nullptr;  // that the stream waits for
  KernelLanes* lanes_ = nullptr;       // that the kernels are on
  Direction direction_{};
  unsigned kernels_ = 0;  // under way
};

// Thread-safe. As many streams as threads ever copied at once.
class CopyStreams {
 public:
  explicit CopyStreams(
      ContextPtr context, Log log = [](std::string_view, std::string_view) {})
      : context_(std::move(context)), batches_(std::move(log)) {}
  ~CopyStreams();

  // A stream for a scope.
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
  // What is queued there comes behind `after`, if any.
  Result<Lease> take(const Fence* after = nullptr);
  // So many streams at least, each with pinned memory of these sizes: 0 is none. What cannot be had is made by the copy that needs it. REQUIRES: no copy is under way.
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
