#include "tests/cuda/fake_driver/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace larder::fake_cuda {
namespace {

std::byte* map(int file, int protection) {
  void* const at = ::mmap(nullptr, kHeapBytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (at == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(at);
}

}  // namespace

Memory::Memory() {
  file_ = ::memfd_create("fake-device", MFD_CLOEXEC);
  if (file_ < 0 || ::ftruncate(file_, kHeapBytes) != 0) std::abort();
  device_ = map(file_, PROT_NONE);
  alias_ = map(file_, PROT_READ | PROT_WRITE);
}

std::byte* Memory::allocate(std::size_t bytes, int device, bool without_context,
                            bool by_the_driver) {
  const std::lock_guard lock(mutex_);
  const std::size_t start = (used_ + 255) / 256 * 256;
  if (bytes > kHeapBytes - start) std::abort();
  used_ = start + bytes;
  const std::size_t place = ++last_id_ % LiveTable::kMost;
  live().id[place] = last_id_;
  allocated_[reinterpret_cast<DevicePtr>(device_) + start] = {
      bytes, device, without_context, by_the_driver, place, last_id_};
  return device_ + start;
}

// REQUIRES: the mutex is held, and the entry exists.
void Memory::erase(DevicePtr address) {
  const auto at = allocated_.find(address);
  live().id[at->second.place] = 0;
  allocated_.erase(at);
}

void Memory::free_unasked(DevicePtr address) {
  const std::lock_guard lock(mutex_);
  erase(address);
}

std::byte* Memory::view(DevicePtr address) const {
  const DevicePtr start = reinterpret_cast<DevicePtr>(device_);
  if (address >= start && address < start + kHeapBytes) return alias_ + (address - start);
  const std::optional<SharedMemory::Seen> seen = shared_memory().find(address);
  return seen ? seen->view : nullptr;
}

std::optional<Memory::Where> Memory::where(DevicePtr address) const {
  if (const std::optional<SharedMemory::Seen> seen = shared_memory().find(address))
    return Where{seen->base, seen->bytes, seen->id, false};
  const std::lock_guard lock(mutex_);
  auto at = allocated_.upper_bound(address);
  if (at == allocated_.begin()) return std::nullopt;
  --at;
  if (address - at->first >= at->second.bytes) return std::nullopt;
  return Where{at->first, at->second.bytes, at->second.id, true};
}

copy::cuda::IpcHandle Memory::name(const Where& heap) const {
  return SharedMemory::name(file_, heap.base - reinterpret_cast<DevicePtr>(device_), heap.bytes,
                            heap.id % LiveTable::kMost, heap.id, device_of(heap.base));
}

// The end of the heap is reused at once, the rest after reset().
bool Memory::release(DevicePtr address) {
  const std::lock_guard lock(mutex_);
  const auto at = allocated_.find(address);
  if (at == allocated_.end() || !at->second.by_the_driver) return false;
  const std::size_t start = address - reinterpret_cast<DevicePtr>(device_);
  if (start + at->second.bytes == used_) used_ = start;
  erase(address);
  return true;
}

std::uint64_t Memory::device_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [start, allocated] : allocated_)
    if (allocated.by_the_driver) bytes += allocated.bytes;
  return bytes;
}

void Memory::forget_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [start, pinned] : pinned_)
    if (!pinned.registered) std::free(reinterpret_cast<void*>(start));
  pinned_.clear();
  scattered_ = false;
  allocated_.clear();
  ::madvise(alias_, used_, MADV_REMOVE);  // including live allocations
  used_ = sizeof(LiveTable);
}

bool Memory::on_device(DevicePtr address, std::size_t bytes) const {
  if (const std::optional<SharedMemory::Seen> seen = shared_memory().find(address))
    return seen->view != nullptr && bytes <= seen->bytes - (address - seen->base);
  const std::lock_guard lock(mutex_);
  auto at = allocated_.upper_bound(address);
  if (at == allocated_.begin()) return false;
  --at;
  return address - at->first <= at->second.bytes &&
         bytes <= at->second.bytes - (address - at->first);
}

bool Memory::of_a_context(DevicePtr address) const {
  if (const std::optional<SharedMemory::Seen> seen = shared_memory().find(address))
    return !seen->by_hand;
  const std::lock_guard lock(mutex_);
  auto at = allocated_.upper_bound(address);
  return at != allocated_.begin() && !(--at)->second.without_context;
}

int Memory::device_of(DevicePtr address) const {
  if (const std::optional<SharedMemory::Seen> seen = shared_memory().find(address))
    return seen->device;
  const std::lock_guard lock(mutex_);
  return std::prev(allocated_.upper_bound(address))->second.device;
}

bool Memory::add_pinned(void* memory, std::size_t bytes, bool registered, int device) {
  const std::lock_guard lock(mutex_);
  const auto start = reinterpret_cast<DevicePtr>(memory);
  const auto next = pinned_.lower_bound(start);
  if (next != pinned_.end() && next->first < start + bytes) return false;
  if (next != pinned_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > start)
    return false;
  constexpr unsigned kShifts = 255;  // different from the neighbour's
  pinned_[start] = {bytes, registered, device,
                    scattered_ && registered ? kScatter * (1 + scatters_++ % kShifts) : 0};
  return true;
}

void Memory::scatter() {
  const std::lock_guard lock(mutex_);
  scattered_ = true;
}

std::optional<DevicePtr> Memory::named(int device, const void* memory) const {
  const std::lock_guard lock(mutex_);
  const auto host = reinterpret_cast<DevicePtr>(memory);
  const auto at = pinned_with(host);
  if (at == pinned_.end()) return std::nullopt;
  return mapped_at(device) + at->second.shift + host;
}

// REQUIRES: the mutex is held.
DevicePtr Memory::unnamed(int device, DevicePtr address) const {
  if (address < mapped_at(device) || address >= mapped_at(device + 1)) return 0;
  const DevicePtr host = (address - mapped_at(device)) % kScatter;
  const auto at = pinned_with(host);
  return at != pinned_.end() && mapped_at(device) + at->second.shift + host == address ? host : 0;
}

bool Memory::remove_pinned(void* memory, bool registered, int device) {
  const std::lock_guard lock(mutex_);
  const auto at = pinned_.find(reinterpret_cast<DevicePtr>(memory));
  if (at == pinned_.end() || at->second.registered != registered) return false;
  if (registered && at->second.device != device) return false;
  pinned_.erase(at);
  return true;
}

// REQUIRES: the mutex is held.
Memory::PinnedMap::const_iterator Memory::pinned_with(DevicePtr address) const {
  const auto after = pinned_.upper_bound(address);
  if (after == pinned_.begin()) return pinned_.end();
  const auto at = std::prev(after);
  return address - at->first < at->second.bytes ? at : pinned_.end();
}

bool Memory::pinned(DevicePtr address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto at = pinned_with(address);
  return at != pinned_.end() && bytes <= at->second.bytes - (address - at->first);
}

bool Memory::registered_by_host_address(DevicePtr address) const {
  const std::lock_guard lock(mutex_);
  const auto at = pinned_with(address);
  return at != pinned_.end() && at->second.registered;
}

std::uint64_t Memory::pinned_bytes(bool registered) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [start, pinned] : pinned_)
    if (pinned.registered == registered) bytes += pinned.bytes;
  return bytes;
}

bool Memory::on(int device, DevicePtr address, std::size_t bytes) const {
  return on_device(address, bytes) && device_of(address) == device;
}

std::byte* Memory::for_copy(int device, DevicePtr address, std::size_t bytes) const {
  if (on(device, address, bytes)) return view(address);
  if (pinned(address, bytes)) return reinterpret_cast<std::byte*>(address);
  const std::lock_guard lock(mutex_);
  const DevicePtr host = unnamed(device, address);
  if (host == 0) return nullptr;
  const auto at = pinned_with(host);
  return bytes <= at->second.bytes - (host - at->first) ? reinterpret_cast<std::byte*>(host)
                                                        : nullptr;
}

// Crosses from a registration to the next if the device has them as neighbours.
std::byte* Memory::for_kernel(int device, DevicePtr address, std::size_t bytes) const {
  if (on(device, address, bytes)) return view(address);
  const std::lock_guard lock(mutex_);
  const DevicePtr first = unnamed(device, address);
  for (DevicePtr next = address; next < address + bytes;) {
    const DevicePtr host = unnamed(device, next);
    if (host == 0 || host - first != next - address) return nullptr;
    const auto at = pinned_with(host);
    next += at->first + at->second.bytes - host;
  }
  return reinterpret_cast<std::byte*>(first);
}

}  // namespace larder::fake_cuda
