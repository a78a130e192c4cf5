// Fences: points in the engine's own streams that copies wait for. Events are reused, so a request
// for a load costs two calls of the driver.
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
  // The number of free events to keep; more are destroyed.
  static constexpr std::size_t kMaxFree = 64;

  static std::shared_ptr<Fences> make(ContextPtr context) {
    return std::shared_ptr<Fences>(new Fences(std::move(context)));
  }
  ~Fences();

  // A fence behind all work now queued on the stream. kFailedPrecondition: the stream is being
  // captured into a graph, or the stream is the legacy stream and another stream is being captured.
  // The capture goes on undisturbed. Throws std::bad_alloc. The fence keeps this object alive.
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

// A recorded event of a Fences object.
class CudaFence final : public Fence {
 public:
  CudaFence(std::shared_ptr<Fences> owner, Handle event)
      : owner_(std::move(owner)), event_(event) {}
  ~CudaFence() override { owner_->give_back(event_); }
  CudaFence(const CudaFence&) = delete;
  CudaFence& operator=(const CudaFence&) = delete;
  Status wait() const override;

 private:
  const std::shared_ptr<Fences> owner_;
  const Handle event_;
  mutable std::atomic<bool> reached_{false};  // later waits are skipped
};

}  // namespace larder::copy::cuda
