// Memory of the fake device that two processes share: legacy handles, and memory that is mapped by
// hand. Kernel descriptors keep the memory alive after its owner's death while another process has
// it open, as on a GPU.
//
// The tests prove protocol, order, lifetimes and the results of deaths, but no figures.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "cuda/driver_abi.h"

namespace larder::fake_cuda {

using copy::cuda::AllocationHandle;
using copy::cuda::DevicePtr;
using copy::cuda::IpcHandle;
using copy::cuda::ResultCode;

// Lies in the heap itself, so that a process with an open allocation sees the release.
struct LiveTable {
  static constexpr std::size_t kMost = 4096;
  std::atomic<std::uint64_t> id[kMost];  // 0: a free place
};
static_assert(sizeof(LiveTable) == 32768);

class SharedMemory {
 public:
  // The handle of an allocation in this process's heap, for another process.
  static IpcHandle name(int heap, std::uint64_t offset, std::uint64_t bytes, std::uint64_t place,
                        std::uint64_t id, int device);
  // Works only in the context of the device of the memory.
  ResultCode open(const IpcHandle& handle, int device, DevicePtr* memory);
  ResultCode close(DevicePtr memory);

  // cuMemCreate, cuMemMap and so on for this process: at a new address, or again at an earlier one.
  std::byte* create(std::size_t bytes, bool exportable);
  void unmap_own(DevicePtr address);
  void map_again(DevicePtr address, bool same_id);

  AllocationHandle make(std::size_t bytes);  // exportable
  ResultCode retain(DevicePtr address, AllocationHandle* handle);
  ResultCode release(AllocationHandle handle);
  ResultCode give(AllocationHandle handle, int* fd);
  ResultCode import(int fd, AllocationHandle* handle);
  ResultCode reserve(std::size_t bytes, DevicePtr* address);
  ResultCode unreserve(DevicePtr address, std::size_t bytes);
  ResultCode map(DevicePtr address, std::size_t bytes, AllocationHandle handle);
  ResultCode unmap(DevicePtr address);
  ResultCode set_access(DevicePtr address, int device);

  struct Seen {
    DevicePtr base;
    std::size_t bytes;
    std::uint64_t id;
    bool by_hand;
    int device;
    std::byte* view;  // of the address in question; nullptr: freed meanwhile
  };
  // Empty: the address lies in none of these.
  std::optional<Seen> find(DevicePtr address) const;

 private:
  struct Region {
    std::size_t bytes = 0;
    std::byte* alias = nullptr;  // of the first byte
    std::byte* mapped = nullptr;
    std::size_t mapped_bytes = 0;
    std::uint64_t id = 0;
    int device = 0;
    AllocationHandle allocation = 0;  // 0: opened by a legacy handle, or not mapped
    const LiveTable* live = nullptr;
    std::size_t place = 0;
  };
  struct Allocation {
    int file = -1;
    std::size_t bytes = 0;
    bool exportable = true;
    int references = 1;
  };
  AllocationHandle make_allocation(std::size_t bytes, bool exportable);
  bool map_region(Region& region, AllocationHandle handle);
  void unmap_region(Region& region);
  void drop(AllocationHandle handle);

  mutable std::mutex mutex_;
  std::map<DevicePtr, Region> regions_;
  std::map<AllocationHandle, Allocation> allocations_;
  AllocationHandle last_ = 0;
};

SharedMemory& shared_memory();

}  // namespace larder::fake_cuda
