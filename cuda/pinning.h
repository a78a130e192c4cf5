// Pinning: registers the arena with CUDA, span by span in the background, so that slots can be copied from and to directly.
//
// Until a slot's span is registered, and for ever where the kernel refuses (RLIMIT_MEMLOCK, an unusual file system), copies of it go
// through staging memory. Only memory that is present is registered. Thread-safe; owns a thread, and blocks its destructor's caller for as
// long as one span takes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "cuda/copy_engine.h"
#include "cuda/device_context.h"

namespace larder::copy::cuda {

class Pinning final : public ReadyMemory {
 public:
  // 34 ms on pages of 4 KiB (read, not measured here). A slot that lies across two spans goes through staging: of 36 MiB one in 28.
  static constexpr std::size_t kSpanBytes = 1 << 30;

  // `memory` outlives it. Throws std::system_error where no thread can be made.
  Pinning(ContextPtr context, std::span<std::byte> memory, Log log, std::size_t span_bytes = kSpanBytes);
  ~Pinning() override;
  void present(std::uint64_t bytes) override;

  // The device's address of these bytes, where they lie in one registered span.
  std::optional<DevicePtr> device(std::span<const std::byte> bytes) const;
  // Registered by now, from the start on.
  std::size_t pinned_bytes() const { return pinned_.load(std::memory_order_acquire) * span_bytes_; }
  const std::byte* start() const { return memory_.data(); }
  // No longer, whatever comes.
  bool gave_up() const { return gave_up_; }

 private:
  void work();
  Status pin(std::span<std::byte> bytes, DevicePtr& device);
  std::span<std::byte> span(std::size_t number) const;
  std::size_t spans() const { return (memory_.size() + span_bytes_ - 1) / span_bytes_; }

  const ContextPtr context_;
  const std::span<std::byte> memory_;
  const Log log_;
  const std::size_t span_bytes_;
  std::vector<DevicePtr> devices_;      // of each span that is registered
  std::atomic<std::size_t> pinned_{0};  // spans
  std::atomic<bool> gave_up_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t present_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace larder::copy::cuda
