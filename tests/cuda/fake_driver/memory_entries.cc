// The functions for memory: of the device, pinned, and registered. Calls that pin or release hold
// the driver's lock, and a release waits for all work.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "tests/cuda/fake_driver/contexts.h"
#include "tests/cuda/fake_driver/device.h"
#include "tests/cuda/fake_driver/entry.h"

namespace larder::fake_cuda {
namespace {

using namespace copy::cuda;

constexpr ResultCode kNotRegistered = 713;
constexpr std::size_t kPage = 4096;

ResultCode mem_alloc(DevicePtr* memory, std::size_t bytes) {
  LARDER_BEGIN_UNSAFE("cuMemAlloc");
  *memory =
      reinterpret_cast<DevicePtr>(device().memory.allocate(bytes, current_device(), false, true));
  return kSuccess;
}

ResultCode mem_free(DevicePtr memory) {
  LARDER_BEGIN_GIVING_BACK();
  if (const ResultCode answer = captures().unordered(); answer != kSuccess) return answer;
  device().drain();
  return device().memory.release(memory) ? kSuccess : kInvalidValue;
}

ResultCode mem_host_alloc(void** memory, std::size_t bytes, unsigned flags) {
  LARDER_BEGIN_UNSAFE("cuMemHostAlloc");
  if ((flags & kHostDeviceMap) == 0) return kInvalidValue;
  if (setting("FAKE_CUDA_NO_STAGING", 0) != 0) return kOutOfMemory;
  Device& d = device();
  const std::lock_guard driver(d.pinning);
  d.spend("host_alloc", bytes);
  {
    const std::lock_guard lock(d.mutex);
    ++d.counted.host_allocs;
  }
  *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  return *memory != nullptr && d.memory.add_pinned(*memory, bytes, false, current_device())
             ? kSuccess
             : kOutOfMemory;
}

// A release waits for all work and holds the driver's lock for pinned memory.
std::unique_lock<std::mutex> begin_freeing(Device& device) {
  device.drain();
  std::unique_lock lock(device.pinning);
  device.spend("free", 0);
  return lock;
}

ResultCode mem_free_host(void* memory) {
  LARDER_BEGIN_GIVING_BACK();
  if (const ResultCode answer = captures().unordered(); answer != kSuccess) return answer;
  Device& d = device();
  const std::unique_lock<std::mutex> driver = begin_freeing(d);
  {
    const std::lock_guard lock(d.mutex);
    ++d.counted.host_frees;
  }
  if (!d.memory.remove_pinned(memory, false, current_device())) return kInvalidValue;
  std::free(memory);
  return kSuccess;
}

// The number of bytes without a page in this process's map. An unreadable map counts as complete.
std::size_t absent(const void* memory, std::size_t bytes) {
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
  const std::uint64_t first = reinterpret_cast<std::uint64_t>(memory) / kPage;
  const std::uint64_t count =
      (reinterpret_cast<std::uint64_t>(memory) + bytes + kPage - 1) / kPage - first;
  std::vector<std::uint64_t> pages(count, kPresent);
  const int map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (map >= 0) {
    const ssize_t got = ::pread(map, pages.data(), count * sizeof(std::uint64_t),
                                static_cast<off_t>(first * sizeof(std::uint64_t)));
    static_cast<void>(got);
    ::close(map);
  }
  std::size_t missing = 0;
  for (const std::uint64_t page : pages) missing += (page & kPresent) == 0 ? kPage : 0;
  return missing;
}

ResultCode mem_host_register(void* memory, std::size_t bytes, unsigned flags) {
  LARDER_BEGIN_UNSAFE("cuMemHostRegister");
  if ((flags & kHostDeviceMap) == 0) return kInvalidValue;
  Device& d = device();
  const auto begun = std::chrono::steady_clock::now();
  const std::size_t missing = absent(memory, bytes);
  const std::lock_guard driver(d.pinning);
  d.spend("register", bytes);
  if (!d.memory.add_pinned(memory, bytes, true, current_device())) return kAlreadyRegistered;
  const std::lock_guard lock(d.mutex);
  d.registrations.push_back({memory, bytes, missing, begun, std::chrono::steady_clock::now()});
  return kSuccess;
}

ResultCode mem_host_unregister(void* memory) {
  LARDER_BEGIN_GIVING_BACK();
  if (const ResultCode answer = captures().unordered(); answer != kSuccess) return answer;
  Device& d = device();
  const std::unique_lock<std::mutex> driver = begin_freeing(d);
  // A lost context has released everything. Tests look at the rest.

  const int by = current_device();
  if (by >= 0) return d.memory.remove_pinned(memory, true, by) ? kSuccess : kNotRegistered;
  return d.memory.remove_pinned(memory, true, 0) || d.memory.remove_pinned(memory, true, 1)
             ? kSuccess
             : kNotRegistered;
}

ResultCode mem_host_get_device_pointer(DevicePtr* pointer, void* memory, unsigned) {
  LARDER_BEGIN("cuMemHostGetDevicePointer");
  const std::optional<DevicePtr> named = device().memory.named(current_device(), memory);
  if (!named) return kInvalidValue;
  *pointer = *named;
  return kSuccess;
}

}  // namespace

const Entries& memory_entries() {
  static const Entries all{
      {"cuMemAlloc", any(mem_alloc)},
      {"cuMemFree", any(mem_free)},
      {"cuMemHostAlloc", any(mem_host_alloc)},
      {"cuMemFreeHost", any(mem_free_host)},
      {"cuMemHostRegister", any(mem_host_register)},
      {"cuMemHostUnregister", any(mem_host_unregister)},
      {"cuMemHostGetDevicePointer", any(mem_host_get_device_pointer)},
  };
  return all;
}

}  // namespace larder::fake_cuda
