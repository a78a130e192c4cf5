// RealDevice: the first GPU of this machine, for the test and the benchmark that need one. It loads the real libcuda.so.1, as an engine would.
// Owned by one thread; memory that it gives out lives as long as it.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>
#include <vector>

#include "cuda/driver.h"

namespace larder::copy::testing_support {

class RealDevice {
 public:
  // nullptr: there is none, and `why` says so.
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
    if ((**driver)->init(0) != cuda::kSuccess || (**driver)->device_get(&number, 0) != cuda::kSuccess ||
        (**driver)->device_primary_ctx_retain(&device->context_, number) != cuda::kSuccess ||
        (**driver)->ctx_push_current(device->context_) != cuda::kSuccess) {
      why = "no CUDA device";
      return nullptr;
    }
    char name[256] = "";
    int version = 0;
    device->call<int(char*, int, int)>("cuDeviceGetName")(name, sizeof(name), number);
    device->call<int(int*)>("cuDriverGetVersion")(&version);
    device->name_ = std::string(name) + ", CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    return device;
  }
  ~RealDevice() {
    for (const cuda::DevicePtr memory : allocated_) call<int(cuda::DevicePtr)>("cuMemFree_v2")(memory);
  }

  const std::string& name() const { return name_; }
  const cuda::Driver& driver() const { return driver_; }
  // nullptr: it has not so much.
  std::byte* allocate(std::size_t bytes) {
    cuda::DevicePtr memory = 0;
    if (call<int(cuda::DevicePtr*, std::size_t)>("cuMemAlloc_v2")(&memory, bytes) != cuda::kSuccess) return nullptr;
    allocated_.push_back(memory);
    return reinterpret_cast<std::byte*>(memory);
  }
  bool write(std::byte* to, const void* from, std::size_t bytes) {
    return call<int(cuda::DevicePtr, const void*, std::size_t)>("cuMemcpyHtoD_v2")(reinterpret_cast<cuda::DevicePtr>(to), from,
                                                                                   bytes) == cuda::kSuccess;
  }
  bool read(void* to, const std::byte* from, std::size_t bytes) {
    return call<int(void*, cuda::DevicePtr, std::size_t)>("cuMemcpyDtoH_v2")(to, reinterpret_cast<cuda::DevicePtr>(from),
                                                                             bytes) == cuda::kSuccess;
  }

 private:
  RealDevice(const cuda::Driver& driver, void* library) : driver_(driver), library_(library) {}
  template <typename Function>
  Function* call(const char* function) const {
    return reinterpret_cast<Function*>(::dlsym(library_, function));
  }
  const cuda::Driver& driver_;
  void* const library_;
  cuda::Handle context_ = nullptr;
  std::string name_;
  std::vector<cuda::DevicePtr> allocated_;
};

}  // namespace larder::copy::testing_support
