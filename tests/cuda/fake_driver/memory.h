// Memory of the fake driver: what addresses are checked against. Device memory of two devices lies in one heap that no host code can reach; host memory is what
// was registered or pinned. Thread-safe.
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

// Host memory as a device names it: nothing that the host could use, and for each device something else.
constexpr DevicePtr mapped_at(int device) {
  return (DevicePtr{1} << 62) + (static_cast<DevicePtr>(device) << 56);
}

// By so much more where registrations are scattered, by a multiple of its own for each: host addresses have 47 bits.
constexpr DevicePtr kScatter = DevicePtr{1} << 47;

class Memory {
 public:
  Memory();
  std::byte* allocate(std::size_t bytes, int device, bool without_context, bool by_the_driver = false);
  // False: cuMemAlloc gave out no such address.
  bool release(DevicePtr address);
  std::uint64_t device_bytes() const;
  void forget_all();
  bool on_device(DevicePtr address, std::size_t bytes) const;
  bool of_a_context(DevicePtr address) const;
  // REQUIRES: it lies on a device.
  int device_of(DevicePtr address) const;
  std::byte* view(DevicePtr address) const;
  // The allocation that the address lies in, of any kind. Nothing: none.
  struct Where {
    DevicePtr base;
    std::size_t bytes;
    std::uint64_t id;  // no other allocation ever has it
    bool heap;         // cuMemAlloc's: it has a legacy handle
  };
  std::optional<Where> where(DevicePtr address) const;
  copy::cuda::IpcHandle name(const Where& heap) const;
  void free_unasked(DevicePtr address);

  // From here until forget_all() neighbours of the host are no neighbours for a device: each registration lies somewhere else.
  void scatter();
  // How a device names registered or pinned memory. Nothing: it is neither.
  std::optional<DevicePtr> named(int device, const void* memory) const;

  // Registered or pinned for the whole process, by one device's context. False: it overlaps what is there.
  bool add_pinned(void* memory, std::size_t bytes, bool registered, int device);
  // False: there is none that begins there. A registration goes by the context that made it alone.
  bool remove_pinned(void* memory, bool registered, int device);
  // In one registration.
  bool pinned(DevicePtr address, std::size_t bytes) const;
  std::uint64_t pinned_bytes(bool registered) const;

  // What a copy of that device may touch, or a kernel: nullptr where neither may. A copy stays in one registration; a kernel's addresses go on from one to
  // the next where they are neighbours.
  std::byte* for_copy(int device, DevicePtr address, std::size_t bytes) const;
  std::byte* for_kernel(int device, DevicePtr address, std::size_t bytes) const;
  // Whether it is an address of the host that was registered, and not one that the driver gave out.
  bool registered_by_host_address(DevicePtr address) const;

 private:
  struct Pinned {
    std::size_t bytes;
    bool registered;
    int device;       // whose context made it
    DevicePtr shift;  // of its device addresses, on top of mapped_at()
  };
  using PinnedMap = std::map<DevicePtr, Pinned>;
  PinnedMap::const_iterator pinned_with(DevicePtr address) const;
  // The host's address of a device's. 0: there is none.
  DevicePtr unnamed(int device, DevicePtr address) const;
  bool on(int device, DevicePtr address, std::size_t bytes) const;
  mutable std::mutex mutex_;
  void erase(DevicePtr address);
  LiveTable& live() const { return *reinterpret_cast<LiveTable*>(alias_); }
  int file_ = -1;
  std::uint64_t last_id_ = 0;
  std::byte* device_ = nullptr;  // nobody may touch it
  std::byte* alias_ = nullptr;   // the same bytes
  std::size_t used_ = sizeof(LiveTable);
  struct Allocated {
    std::size_t bytes;
    int device;
    bool without_context, by_the_driver;
    std::size_t place;  // in the table of what lives
    std::uint64_t id;
  };
  std::map<DevicePtr, Allocated> allocated_;
  PinnedMap pinned_;
  bool scattered_ = false;
  unsigned scatters_ = 0;
};

}  // namespace larder::fake_cuda
