#include "shim/client/page_copies.h"

#include <system_error>

namespace larder::client {

Status PageCopies::serve(const GroupPages& layers) {
  for (const LayerPages& layer : layers) {
    // Each layer is asked about: a model spread over two GPUs would be copied by the wrong engine.
    const Result<std::uint64_t> probed = copy::device_of(layer.base);
    if (!probed.ok())
      return {Code::kUnsupported, "where the KV pages lie is unknown: " + probed.status().text()};
    const std::uint64_t device = *probed;
    // The engine for the first pages serves all. Pages elsewhere would be read through a wrong
    // context.
    if (served_ && device != device_number_)
      return {Code::kUnsupported,
              "KV pages must lie in host memory or on one CUDA device, all of them"};
    if (served_) continue;
    if (device != 0) {
      Result<std::unique_ptr<copy::CopyEngine>> made = engines_.device(
          layer.base,
          [this](std::string_view level, std::string_view text) { log_.add(level, text); });
      if (!made.ok())
        return {Code::kUnsupported, "KV pages on a CUDA device: " + made.status().text()};
      device_ = std::move(made).value();
      // Once and before the first transfer. Other threads then read the choice without a lock.
      chosen_.store(device_.get(), std::memory_order_release);
    }
    device_number_ = device;
    served_ = true;
  }
  return {};
}

Status PageCopies::follow(void* stream) {
  Result<std::shared_ptr<const copy::Fence>> fence = chosen().fence(stream);
  const Status status = fence.status();
  const std::lock_guard lock(mutex_);
  std::swap(after_, fence);  // the earlier fence is destroyed outside the lock
  return status;
}

Result<std::shared_ptr<const copy::Fence>> PageCopies::after() const {
  const std::lock_guard lock(mutex_);
  // A copy of the shared pointer: a load may wait for its fence while the engine has set the next
  // one.
  return after_;
}

std::unique_ptr<copy::ReadyMemory> PageCopies::make_ready(std::span<std::byte> memory,
                                                          int file) const {
  try {
    return chosen().make_ready(memory, file);
  } catch (const std::system_error& error) {
    // Copies work without the registration, through staging memory, so no error goes to the engine.
    log_.add(
        "warning",
        std::string("the arena is not registered with CUDA, copies go through staging memory: ") +
            error.what());
    return nullptr;
  }
}

}  // namespace larder::client
