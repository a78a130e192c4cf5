// Memory of the fake driver, against which addresses are checked. The device memory of both devices
// lies in one heap out of reach of host code. Host memory counts once it is registered or pinned.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "cuda/driver_abi.h"
#include "tests/cuda/fake_driver/shared_memory.h"

namespace larder::fake_cuda {

using copy::cuda::DevicePtr;
using copy::cuda::ResultCode;

constexpr std::size_t kHeapBytes = 512 << 20;

// The device's addresses of host memory: unusable for the host, and different for each device.
constexpr DevicePtr mapped_at(int device) {
  return (DevicePtr{1} << 62) + (static_cast<DevicePtr>(device) << 56);
}

// The distance unit of scattered registrations; each registration has its own multiple. Host
// addresses have 47 bits.
constexpr DevicePtr kScatter = DevicePtr{1} << 47;

class Memory {
 public:
  Memory();
  std::byte* allocate(std::size_t bytes, int device, bool without_context,
                      bool by_the_driver = false);
  // False: the address did not come from cuMemAlloc.
  bool release(DevicePtr address);
  std::uint64_t device_bytes() const;
  void forget_all();
  bool on_device(DevicePtr address, std::size_t bytes) const;
  bool of_a_context(DevicePtr address) const;
  // REQUIRES: the address lies on a device.
  int device_of(DevicePtr address) const;
  std::byte* view(DevicePtr address) const;
  // The allocation with this address, of any kind. Empty: there is none.
  struct Where {
    DevicePtr base;
    std::size_t bytes;
    std::uint64_t id;  // unique for good
    bool heap;         // from cuMemAlloc, with a legacy handle
  };
  std::optional<Where> where(DevicePtr address) const;
  copy::cuda::IpcHandle name(const Where& heap) const;
  void free_unasked(DevicePtr address);

  // From now until forget_all() neighbours on the host are no neighbours for a device.
  void scatter();
  // The device's address of registered or pinned memory. Empty: the memory is neither.
  std::optional<DevicePtr> named(int device, const void* memory) const;

  // Registers or pins memory for the whole process, by one device's context. False: the memory
  // overlaps an earlier entry.
  bool add_pinned(void* memory, std::size_t bytes, bool registered, int device);
  // False: no entry begins there. Only the context that registered memory can release the
  // registration.
  bool remove_pinned(void* memory, bool registered, int device);
  // Whether the range lies in one registration.
  bool pinned(DevicePtr address, std::size_t bytes) const;
  std::uint64_t pinned_bytes(bool registered) const;

  // The host's view of memory that a copy or kernel of that device may touch; otherwise nullptr. A
  // copy stays within one registration. A kernel may cross to a neighbour by device addresses.
  std::byte* for_copy(int device, DevicePtr address, std::size_t bytes) const;
  std::byte* for_kernel(int device, DevicePtr address, std::size_t bytes) const;
  // Whether the address is a host address of registered memory and did not come from the driver.
  bool registered_by_host_address(DevicePtr address) const;

 private:
  struct Pinned {
    std::size_t bytes;
    bool registered;
    int device;       // of the context that made the entry
    DevicePtr shift;  // of the device addresses, added to mapped_at()
  };
  using PinnedMap = std::map<DevicePtr, Pinned>;
  PinnedMap::const_iterator pinned_with(DevicePtr address) const;
  // The host address of a device's address. 0: there is none.
  DevicePtr unnamed(int device, DevicePtr address) const;
  bool on(int device, DevicePtr address, std::size_t bytes) const;
  mutable std::mutex mutex_;
  void erase(DevicePtr address);
  LiveTable& live() const { return *reinterpret_cast<LiveTable*>(alias_); }
  int file_ = -1;
  std::uint64_t last_id_ = 0;
  std::byte* device_ = nullptr;  // no access
  std::byte* alias_ = nullptr;   // the same bytes
  std::size_t used_ = sizeof(LiveTable);
  struct Allocated {
    std::size_t bytes;
    int device;
    bool without_context, by_the_driver;
    std::size_t place;  // in the LiveTable
    std::uint64_t id;
  };
  std::map<DevicePtr, Allocated> allocated_;
  PinnedMap pinned_;
  bool scattered_ = false;
  unsigned scatters_ = 0;
};

}  // namespace larder::fake_cuda
