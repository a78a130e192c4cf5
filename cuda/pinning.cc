#include "cuda/pinning.h"

#include <pthread.h>

#include <algorithm>

#include "cuda/quiet_thread.h"

namespace larder::copy::cuda {

Pinning::Pinning(ContextPtr context, std::span<std::byte> memory, Log log, std::size_t span_bytes)
    : context_(std::move(context)), memory_(memory), log_(std::move(log)), span_bytes_(span_bytes), devices_(spans()) {
  thread_ = quiet_thread([this] { work(); });
}

Pinning::~Pinning() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return;
  for (std::size_t i = 0; i < pinned_; ++i) context_->driver()->mem_host_unregister(span(i).data());
}

void Pinning::present(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (bytes <= present_) return;
    present_ = bytes;
  }
  changed_.notify_all();
}

std::optional<DevicePtr> Pinning::device(std::span<const std::byte> bytes) const {
  if (bytes.empty() || bytes.data() < memory_.data() || bytes.data() + bytes.size() > memory_.data() + memory_.size())
    return std::nullopt;
  const auto offset = static_cast<std::size_t>(bytes.data() - memory_.data());
  const std::size_t number = offset / span_bytes_;
  if (number != (offset + bytes.size() - 1) / span_bytes_ || number >= pinned_.load(std::memory_order_acquire))
    return std::nullopt;
  return devices_[number] + offset % span_bytes_;
}

std::span<std::byte> Pinning::span(std::size_t number) const {
  const std::size_t start = number * span_bytes_;
  return memory_.subspan(start, std::min(span_bytes_, memory_.size() - start));
}

void Pinning::work() {
  pthread_setname_np(pthread_self(), "larder-pin");
  for (std::size_t i = 0; i < spans(); ++i) {
    const std::span<std::byte> bytes = span(i);
    {
      std::unique_lock lock(mutex_);
      const auto end = static_cast<std::uint64_t>(bytes.data() + bytes.size() - memory_.data());
      changed_.wait(lock, [&] { return closing_ || present_ >= end; });
      if (closing_) return;
    }
    if (Status status = pin(bytes, devices_[i]); !status.ok()) {
      gave_up_ = true;
      log_("warning", "the arena cannot be registered with CUDA beyond " + std::to_string(i * span_bytes_ >> 20) + " MiB of " +
                          std::to_string(memory_.size() >> 20) + " (" + status.text() +
                          "): copies of the rest go through staging memory; a larger RLIMIT_MEMLOCK may help");
      return;
    }
    pinned_.store(i + 1, std::memory_order_release);
  }
}

Status Pinning::pin(std::span<std::byte> bytes, DevicePtr& device) {
  const Driver& driver = context_->driver();
  const ContextScope scope(driver, context_->handle());
  if (!scope.status().ok()) return scope.status();
  if (Status status = driver.status(driver->mem_host_register(bytes.data(), bytes.size(), kHostPortable | kHostDeviceMap),
                                    "cuMemHostRegister");
      !status.ok())
    return status;
  Status status = driver.status(driver->mem_host_get_device_pointer(&device, bytes.data(), 0), "cuMemHostGetDevicePointer");
  if (!status.ok()) driver->mem_host_unregister(bytes.data());
  return status;
}

}  // namespace larder::copy::cuda
