// RealDevice: the first GPU of this machine, for the test and the benchmark that need a GPU. Loads
// the libcuda.so.1 that the loader finds, as an engine would. With LD_LIBRARY_PATH this may be the
// fake driver, so that test and benchmark can be tried without a GPU.
//
// Owned by one thread, which also has the context. Allocated memory lives until release() or the
// destructor.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cuda/driver.h"

namespace larder::copy::testing_support {

class RealDevice {
 public:
  // nullptr: there is no device, and `why` gives the reason.
  static std::unique_ptr<RealDevice> open(std::string& why) {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
      why = "no CUDA device: no libcuda.so.1";
      return nullptr;
    }
    const Result<const cuda::Driver*> driver = cuda::Driver::find();
    if (!driver.ok()) {
      why = driver.status().text();
      return nullptr;
    }
    std::unique_ptr<RealDevice> device(new RealDevice(**driver, library));
    int number = 0;
    if ((**driver)->init(0) != cuda::kSuccess ||
        (**driver)->device_get(&number, 0) != cuda::kSuccess ||
        (**driver)->device_primary_ctx_retain(&device->context_, number) != cuda::kSuccess ||
        (**driver)->ctx_push_current(device->context_) != cuda::kSuccess) {
      why = "no CUDA device";
      return nullptr;
    }
    device->number_ = number;
    device->name_ = device->told_name(number);
    return device;
  }
  ~RealDevice() {
    if (bounce_ != nullptr) driver_->mem_free_host(bounce_);
    for (; !allocated_.empty(); allocated_.pop_back())
      // Backwards, because the fake driver reuses only the end of its heap.
      driver_->mem_free(allocated_.back());
  }

  // The name of the device, with the driver's version.
  const std::string& name() const { return name_; }
  int number() const { return number_; }
  const cuda::Driver& driver() const { return driver_; }
  // A driver function that the product does not use. nullptr: the driver has no such function.
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  cuda::Handle context() const { return context_; }
  // nullptr: device memory is short.
  std::byte* allocate(std::size_t bytes) {
    cuda::DevicePtr memory = 0;
    if (driver_->mem_alloc(&memory, bytes) != cuda::kSuccess) return nullptr;
    allocated_.push_back(memory);
    return reinterpret_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) {
    if (std::erase(allocated_, address(memory)) != 0) driver_->mem_free(address(memory));
  }
  // A stream that is being captured into a graph from now on, in CUDA's default mode. nullptr: the
  // capture cannot begin.
  cuda::Handle begin_capture() {
    const auto begin = function<int(cuda::Handle, int)>("cuStreamBeginCapture_v2");
    cuda::Handle stream = nullptr;
    if (begin == nullptr ||
        driver_->stream_create_with_priority(&stream, cuda::kStreamNonBlocking, 0) !=
            cuda::kSuccess ||
        begin(stream, 0) != cuda::kSuccess)
      return nullptr;
    return stream;
  }
  // False: some call has invalidated the capture.
  bool end_capture(cuda::Handle stream) {
    const auto end = function<int(cuda::Handle, cuda::Handle*)>("cuStreamEndCapture");
    const auto destroy = function<int(cuda::Handle)>("cuGraphDestroy");
    cuda::Handle graph = nullptr;
    const bool whole = end(stream, &graph) == cuda::kSuccess;
    if (graph != nullptr) destroy(graph);
    driver_->stream_destroy(stream);
    return whole;
  }
  // Complete on return, for all streams. The copies go through pinned memory: from other memory
  // CUDA's own calls return before the last bytes have arrived, and a non-blocking stream does not
  // wait for them.
  bool write(std::byte* to, const void* from, std::size_t bytes) {
    const auto* const source = static_cast<const std::byte*>(from);
    return by_parts(bytes, [&](std::size_t at, std::size_t count) {
      std::memcpy(bounce_, source + at, count);
      return copied(address(to + at), address(bounce_), count);
    });
  }
  bool read(void* to, const std::byte* from, std::size_t bytes) {
    return by_parts(bytes, [&](std::size_t at, std::size_t count) {
      if (!copied(address(bounce_), address(from + at), count)) return false;
      std::memcpy(static_cast<std::byte*>(to) + at, bounce_, count);
      return true;
    });
  }

 private:
  static constexpr std::size_t kBounceBytes = 8 << 20;

  RealDevice(const cuda::Driver& driver, void* library) : driver_(driver), library_(library) {}
  static cuda::DevicePtr address(const void* memory) {
    return reinterpret_cast<cuda::DevicePtr>(memory);
  }
  bool copied(cuda::DevicePtr to, cuda::DevicePtr from, std::size_t bytes) {
    return driver_->memcpy_async(to, from, bytes, nullptr) == cuda::kSuccess &&
           driver_->stream_synchronize(nullptr) == cuda::kSuccess;
  }
  template <typename Part>
  bool by_parts(std::size_t bytes, Part part) {
    if (bounce_ == nullptr &&
        driver_->mem_host_alloc(&bounce_, kBounceBytes,
                                cuda::kHostPortable | cuda::kHostDeviceMap) != cuda::kSuccess)
      return false;
    for (std::size_t at = 0; at < bytes; at += kBounceBytes)
      if (!part(at, std::min(kBounceBytes, bytes - at))) return false;
    return true;
  }
  // The fake driver has neither function.
  std::string told_name(int number) const {
    const auto get_name = function<int(char*, int, int)>("cuDeviceGetName");
    const auto get_version = function<int(int*)>("cuDriverGetVersion");
    char name[256] = "a fake device";
    int version = 0;
    if (get_name != nullptr) get_name(name, sizeof(name), number);
    if (get_version != nullptr) get_version(&version);
    std::string driver = "unknown";
    std::ifstream("/sys/module/nvidia/version") >> driver;
    return std::string(name) + ", CUDA " + std::to_string(version / 1000) + "." +
           std::to_string(version % 1000 / 10) + ", driver " + driver;
  }
  const cuda::Driver& driver_;
  void* const library_;
  void* bounce_ = nullptr;  // pinned
  int number_ = 0;
  cuda::Handle context_ = nullptr;
  std::string name_;
  std::vector<cuda::DevicePtr> allocated_;
};

}  // namespace larder::copy::testing_support
