// Fences: points in the engine's own streams, for which copies wait. Their events are used again and again: asking for a load is two calls of the
// driver, and no more.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/copy_engine.h"
#include "cuda/device_context.h"

namespace larder::copy::cuda {

class Fences : public std::enable_shared_from_this<Fences> {
 public:
  // Events that are kept for the next; more are destroyed.
  static constexpr std::size_t kMaxFree = 64;

  static std::shared_ptr<Fences> make(ContextPtr context) { return std::shared_ptr<Fences>(new Fences(std::move(context))); }
  ~Fences();

  // All that is queued on that stream by now. kFailedPrecondition: it is being captured into a graph, or is the legacy stream while another is; the capture
  // goes on as if nobody had asked. Throws std::bad_alloc. The fence keeps this.
  Result<std::shared_ptr<const Fence>> record(Handle stream);

 private:
  friend class CudaFence;
  explicit Fences(ContextPtr context) : context_(std::move(context)) { free_.reserve(kMaxFree); }
  Result<Handle> take();
  void give_back(Handle event);

  const ContextPtr context_;
  std::mutex mutex_;
  std::vector<Handle> free_;
};

// An event of theirs, recorded.
class CudaFence final : public Fence {
 public:
  CudaFence(std::shared_ptr<Fences> owner, Handle event) : owner_(std::move(owner)), event_(event) {}
  ~CudaFence() override { owner_->give_back(event_); }
  CudaFence(const CudaFence&) = delete;
  CudaFence& operator=(const CudaFence&) = delete;
  Status wait() const override;
  Handle event() const { return event_; }
  // Told by whoever has waited for something behind it: nobody needs to wait for it any more.
  void note_reached() const { reached_ = true; }
  bool reached() const { return reached_; }

 private:
  const std::shared_ptr<Fences> owner_;
  const Handle event_;
  mutable std::atomic<bool> reached_{false};
};

}  // namespace larder::copy::cuda
