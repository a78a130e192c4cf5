// PinnedBuffer: host memory that a device reads and writes, and that grows on demand.
// Thread-compatible.
//
// Allocation of pinned memory waits for any process of the node that registers memory. Release may
// wait for all work of the GPU. So outgrown memory stays until the destructor, and
// CopyEngine::prepare() makes memory before the copies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cuda/device_context.h"
#include "cuda/device_range.h"

namespace larder::copy::cuda {

class PinnedBuffer {
 public:
  explicit PinnedBuffer(const DeviceContext& context) : driver_(context.driver()) {}
  // REQUIRES: the context is current, and the memory is out of use.
  ~PinnedBuffer() {
    for (void* const memory : all_) driver_->mem_free_host(memory);
  }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  // The smallest allocation, and the largest surplus when the buffer grows. An allocation takes the
  // driver as long as many copies.
  static constexpr std::size_t kLeastBytes = 64 << 10, kMostAheadBytes = 4 << 20;

  // Makes the buffer at least `wanted` bytes large. Growth loses the contents. REQUIRES: the
  // context is current.
  Status ensure(std::size_t wanted) {
    if (wanted <= size_) return {};
    const std::size_t bytes =
        std::max({wanted, kLeastBytes, std::min(2 * size_, wanted + kMostAheadBytes)});
    all_.reserve(all_.size() + 1);
    void* memory = nullptr;
    DevicePtr device = 0;
    if (Status status =
            driver_.status(driver_->mem_host_alloc(&memory, bytes, kHostPortable | kHostDeviceMap),
                           "cuMemHostAlloc");
        !status.ok())
      return status;
    all_.push_back(memory);
    if (Status status = driver_.status(driver_->mem_host_get_device_pointer(&device, memory, 0),
                                       "cuMemHostGetDevicePointer");
        !status.ok())
      return status;
    memory_ = memory;
    device_ = device;
    size_ = bytes;
    return {};
  }

  template <typename T>
  T* data() const {
    return static_cast<T*>(memory_);
  }
  // The buffer under the device's address.
  DevicePtr device() const { return device_; }
  DeviceRange range(std::size_t bytes) const { return {device_, bytes}; }

 private:
  const Driver& driver_;
  std::vector<void*> all_;
  void* memory_ = nullptr;  // the latest in all_
  DevicePtr device_ = 0;
  std::size_t size_ = 0;
};

}  // namespace larder::copy::cuda
