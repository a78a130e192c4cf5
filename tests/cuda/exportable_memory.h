// ExportableMemory: GPU memory that is mapped by hand (cuMemCreate, cuMemMap) and exportable by a
// descriptor, like the KV memory that larderd opens by descriptors. One allocation. Owned by one
// thread.
#pragma once

#include <cstddef>
#include <memory>

#include "tests/cuda/real_device.h"

namespace larder::copy::testing_support {

class ExportableMemory {
 public:
  // kUnsupported: the driver has no such memory or cannot export it. kResourceExhausted: memory is
  // short. `device` outlives the result.
  static Result<std::unique_ptr<ExportableMemory>> make(RealDevice& device, std::size_t bytes) {
    const auto granularity =
        device.function<int(std::size_t*, const Properties*, int)>("cuMemGetAllocationGranularity");
    const auto create = device.function<int(cuda::AllocationHandle*, std::size_t, const Properties*,
                                            unsigned long long)>("cuMemCreate");
    const cuda::Driver& driver = device.driver();
    if (granularity == nullptr || create == nullptr || !driver.shares())
      return Status(Code::kUnsupported, "this driver maps no memory by hand");
    Properties properties;
    properties.location.id = device.number();
    std::size_t unit = 0;
    if (Status status =
            driver.status(granularity(&unit, &properties, 0), "cuMemGetAllocationGranularity");
        !status.ok())
      return status;
    std::unique_ptr<ExportableMemory> made(
        new ExportableMemory(driver, (bytes + unit - 1) / unit * unit));
    cuda::AllocationHandle allocation = 0;
    if (Status status =
            driver.status(create(&allocation, made->bytes_, &properties, 0), "cuMemCreate");
        !status.ok())
      return status;
    const Status mapped = made->map(allocation, properties.location);
    driver->mem_release(allocation);  // the mapping keeps the allocation
    if (!mapped.ok()) return mapped;
    return made;
  }
  ~ExportableMemory() {
    if (mapped_) driver_->mem_unmap(address_, bytes_);
    if (address_ != 0) driver_->mem_address_free(address_, bytes_);
  }
  ExportableMemory(const ExportableMemory&) = delete;
  ExportableMemory& operator=(const ExportableMemory&) = delete;

  std::byte* first() const { return reinterpret_cast<std::byte*>(address_); }

 private:
  // The layout of CUmemAllocationProp.
  struct Properties {
    int type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED
    int handle_types = cuda::kHandleTypeDescriptor;
    cuda::MemLocation location{cuda::kLocationDevice, 0};
    void* win32 = nullptr;
    unsigned char flags[8] = {};
  };
  static_assert(sizeof(Properties) == 32);

  ExportableMemory(const cuda::Driver& driver, std::size_t bytes)
      : driver_(driver), bytes_(bytes) {}
  Status map(cuda::AllocationHandle allocation, const cuda::MemLocation& location) {
    cuda::ResultCode code = driver_->mem_address_reserve(&address_, bytes_, 0, 0, 0);
    if (code != cuda::kSuccess) return driver_.status(code, "cuMemAddressReserve");
    code = driver_->mem_map(address_, bytes_, 0, allocation, 0);
    if (code != cuda::kSuccess) return driver_.status(code, "cuMemMap");
    mapped_ = true;
    const cuda::AccessDescription access{location, cuda::kAccessReadWrite};
    return driver_.status(driver_->mem_set_access(address_, bytes_, &access, 1), "cuMemSetAccess");
  }

  const cuda::Driver& driver_;
  const std::size_t bytes_;
  cuda::DevicePtr address_ = 0;
  bool mapped_ = false;
};

}  // namespace larder::copy::testing_support
