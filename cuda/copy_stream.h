// CopyStream: a CUDA stream that waits for the copies and kernels of one call, with the pinned
// memory of the call. CopyStreams: the pool of streams.
//
// One thread at a time owns a stream. REQUIRES of all functions: the context of the stream is
// current. finish() returns after all queued work has ended, also on failure. A stream goes back to
// the pool only after finish(), so that no copy writes after the return of its call.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cuda/copy_engine.h"
#include "cuda/copy_lanes.h"
#include "cuda/device_context.h"
#include "cuda/kernel_lanes.h"
#include "cuda/pinned_buffer.h"

namespace larder::copy::cuda {

class CopyStream {
 public:
  // `batches` and `lanes` outlive the stream. Without lanes the copies run on the stream itself.
  static Result<std::unique_ptr<CopyStream>> make(ContextPtr context, BatchUse& batches,
                                                  CopyLanes* lanes);
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // Later copies and kernels come after `fence`, which lives until the first of them. nullptr: they
  // wait for nothing. The wait is on the host, because lanes must not wait for the engine's work.
  void wait_for(const Fence* fence) { behind_ = fence; }
  // Queues all copies behind the fence (copy_list.h).
  Status copy(Direction direction, CopyList& list);
  // Launches a kernel on a lane of `lanes`. kCopies: first waits on the host for all work queued
  // here, since lanes must not wait. kFence: waits for the fence alone, where the kernel and the
  // copies only read the pages.
  enum class Behind { kCopies, kFence };
  Status launch(KernelLanes& lanes, Direction direction, Behind behind,
                const KernelLanes::Launch& kernel);
  // The stream for the next copy. Marks the stream as busy.
  Handle queue() {
    busy_ = true;
    return stream_;
  }
  bool busy() const { return busy_ || kernels_ != 0; }
  // Waits once, without use of a processor, until all work is done. Returns at once if the stream
  // is idle.
  Status finish();

  PinnedBuffer pieces;   // addresses for the kernels
  PinnedBuffer digests;  // from the kernels
  PinnedBuffer staging;  // for slots that are not registered

 private:
  CopyStream(ContextPtr context, BatchUse& batches, CopyLanes* lanes);
  Status await_fence();
  const ContextPtr context_;
  const Driver& driver_;
  BatchUse& batches_;
  CopyLanes* const copy_lanes_;
  Handle stream_ = nullptr;
  Handle done_ = nullptr;
  bool busy_ = false;              // copies are queued
  const Fence* behind_ = nullptr;  // not waited for yet
  KernelLanes* lanes_ = nullptr;   // the lanes of the launched kernels
  Direction direction_{};
  unsigned kernels_ = 0;  // launched and not yet waited for
};

// Thread-safe. Holds as many streams as threads ever copied at once.
class CopyStreams {
 public:
  // See CopyStream::make().
  CopyStreams(ContextPtr context, BatchUse& batches, CopyLanes* lanes = nullptr)
      : context_(std::move(context)), batches_(batches), lanes_(lanes) {}
  ~CopyStreams();

  // Owns a stream for a scope.
  class Lease {
   public:
    Lease(CopyStreams& pool, std::unique_ptr<CopyStream> stream)
        : pool_(&pool), stream_(std::move(stream)) {}
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
  BatchUse& batches_;
  CopyLanes* const lanes_;
  std::mutex mutex_;
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<CopyStream>> free_;
};

}  // namespace larder::copy::cuda
