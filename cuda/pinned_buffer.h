// PinnedBuffer: memory of the host that a device reads and writes, and that grows when more is asked. Thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cuda/device_context.h"

namespace larder::copy::cuda {

class PinnedBuffer {
 public:
  explicit PinnedBuffer(const DeviceContext& context) : driver_(context.driver()) {}
  // REQUIRES: the context is current, and nothing uses it any more.
  ~PinnedBuffer() { release(); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  // So much at least; and when it grows so much more than is asked at most: to make such memory takes the driver as long as many copies do.
  static constexpr std::size_t kLeastBytes = 64 << 10, kMostAheadBytes = 4 << 20;

  // At least so many bytes; what it held before is lost where it grows. REQUIRES: as the destructor.
  Status ensure(std::size_t wanted) {
    if (wanted <= size_) return {};
    const std::size_t bytes = std::max({wanted, kLeastBytes, std::min(2 * size_, wanted + kMostAheadBytes)});
    release();
    void* memory = nullptr;
    if (Status status = driver_.status(driver_->mem_host_alloc(&memory, bytes, kHostPortable | kHostDeviceMap), "cuMemHostAlloc");
        !status.ok())
      return status;
    memory_ = memory;
    if (Status status = driver_.status(driver_->mem_host_get_device_pointer(&device_, memory, 0), "cuMemHostGetDevicePointer");
        !status.ok()) {
      release();
      return status;
    }
    size_ = bytes;
    return {};
  }

  template <typename T>
  T* data() const {
    return static_cast<T*>(memory_);
  }
  // The same as a device names it.
  DevicePtr device() const { return device_; }

 private:
  void release() {
    if (memory_ != nullptr) driver_->mem_free_host(memory_);
    memory_ = nullptr;
    size_ = 0;
  }
  const Driver& driver_;
  void* memory_ = nullptr;
  DevicePtr device_ = 0;
  std::size_t size_ = 0;
};

}  // namespace larder::copy::cuda
