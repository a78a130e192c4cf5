#include "tests/cuda/fake_driver/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace larder::fake_cuda {
namespace {

using namespace copy::cuda;

constexpr std::uint64_t kMagic = 0x4b41465f41445543ULL;
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kFirstId = 1 << 30;  // above the numbers of the heap

struct Named {
  std::uint64_t magic, heap_inode, offset, bytes, place, id;
  std::uint32_t pid, fd;
  std::uint64_t device;
};
static_assert(sizeof(Named) <= sizeof(IpcHandle));

std::byte* reserved(std::size_t bytes) {
  void* const at =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

std::byte* mapped(int file, std::size_t bytes, std::size_t offset) {
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

}  // namespace

SharedMemory& shared_memory() {
  static SharedMemory* const the = new SharedMemory;
  return *the;
}

IpcHandle SharedMemory::name(int heap, std::uint64_t offset, std::uint64_t bytes,
                             std::uint64_t place, std::uint64_t id, int device) {
  struct stat file {};
  ::fstat(heap, &file);
  const Named named{kMagic,
                    file.st_ino,
                    offset,
                    bytes,
                    place,
                    id,
                    static_cast<std::uint32_t>(::getpid()),
                    static_cast<std::uint32_t>(heap),
                    static_cast<std::uint64_t>(device)};
  IpcHandle handle;
  std::memcpy(handle.bytes, &named, sizeof(named));
  return handle;
}

// The heap of the process named by the handle, through that process's descriptor. Gone with the
// process.
ResultCode SharedMemory::open(const IpcHandle& handle, int device, DevicePtr* memory) {
  Named named{};
  std::memcpy(&named, handle.bytes, sizeof(named));
  if (named.magic != kMagic || named.place >= LiveTable::kMost) return kInvalidValue;
  if (named.device != static_cast<std::uint64_t>(device)) return kInvalidValue;
  // CUDA_ERROR_INVALID_CONTEXT, as from CUDA.
  if (named.pid == static_cast<std::uint32_t>(::getpid())) return 201;
  const std::string path = "/proc/" + std::to_string(named.pid) + "/fd/" + std::to_string(named.fd);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat heap {};
  if (file < 0 || ::fstat(file, &heap) != 0 || heap.st_ino != named.heap_inode ||
      named.offset + named.bytes > static_cast<std::uint64_t>(heap.st_size)) {
    if (file >= 0) ::close(file);
    return kInvalidValue;
  }
  Region region;
  const std::size_t shift = named.offset % kPage;
  region.bytes = named.bytes;
  region.mapped_bytes = named.bytes + shift;
  region.mapped = mapped(file, region.mapped_bytes, named.offset - shift);
  region.alias = region.mapped + shift;
  region.live = reinterpret_cast<const LiveTable*>(mapped(file, sizeof(LiveTable), 0));
  region.place = named.place;
  region.id = named.id;
  region.device = device;
  ::close(file);
  if (region.live->id[named.place].load() != named.id) return kInvalidValue;  // freed since then
  const std::byte* const at = reserved(named.bytes);
  *memory = reinterpret_cast<DevicePtr>(at);
  const std::lock_guard lock(mutex_);
  regions_[*memory] = region;
  return kSuccess;
}

ResultCode SharedMemory::close(DevicePtr memory) {
  const std::lock_guard lock(mutex_);
  const auto at = regions_.find(memory);
  if (at == regions_.end() || at->second.live == nullptr) return kInvalidValue;
  ::munmap(at->second.mapped, at->second.mapped_bytes);
  ::munmap(const_cast<LiveTable*>(at->second.live), sizeof(LiveTable));
  ::munmap(reinterpret_cast<void*>(memory), at->second.bytes);
  regions_.erase(at);
  return kSuccess;
}

AllocationHandle SharedMemory::make_allocation(std::size_t bytes, bool exportable) {
  const int file = ::memfd_create("fake-device-by-hand", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
  allocations_[++last_] = {file, bytes, exportable, 1};
  return last_;
}

bool SharedMemory::map_region(Region& region, AllocationHandle handle) {
  Allocation& allocation = allocations_.at(handle);
  if (region.bytes > allocation.bytes) return false;
  region.mapped_bytes = region.bytes;
  region.mapped = region.alias = mapped(allocation.file, region.bytes, 0);
  region.allocation = handle;
  ++allocation.references;
  return true;
}

void SharedMemory::unmap_region(Region& region) {
  if (region.alias == nullptr) return;
  ::munmap(region.mapped, region.mapped_bytes);
  region.alias = nullptr;
  drop(std::exchange(region.allocation, 0));
}

void SharedMemory::drop(AllocationHandle handle) {
  const auto at = allocations_.find(handle);
  if (at == allocations_.end() || --at->second.references != 0) return;
  ::close(at->second.file);
  allocations_.erase(at);
}

std::byte* SharedMemory::create(std::size_t bytes, bool exportable) {
  const std::lock_guard lock(mutex_);
  std::byte* const at = reserved(bytes);
  Region& region = regions_[reinterpret_cast<DevicePtr>(at)];
  region.bytes = bytes;
  region.id = kFirstId + last_;
  const AllocationHandle made = make_allocation(bytes, exportable);
  map_region(region, made);
  drop(made);  // the mapping keeps the allocation
  return at;
}

void SharedMemory::unmap_own(DevicePtr address) {
  const std::lock_guard lock(mutex_);
  unmap_region(regions_.at(address));
}

void SharedMemory::map_again(DevicePtr address, bool same_id) {
  const std::lock_guard lock(mutex_);
  Region& region = regions_.at(address);
  if (!same_id) region.id = kFirstId + last_ + 1000;
  const AllocationHandle made = make_allocation(region.bytes, true);
  map_region(region, made);
  drop(made);
}

AllocationHandle SharedMemory::make(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return make_allocation(bytes, true);
}

ResultCode SharedMemory::retain(DevicePtr address, AllocationHandle* handle) {
  const std::lock_guard lock(mutex_);
  const auto at = regions_.find(address);
  if (at == regions_.end() || at->second.allocation == 0) return kInvalidValue;
  *handle = at->second.allocation;
  ++allocations_.at(*handle).references;
  return kSuccess;
}

ResultCode SharedMemory::release(AllocationHandle handle) {
  const std::lock_guard lock(mutex_);
  if (!allocations_.contains(handle)) return kInvalidValue;
  drop(handle);
  return kSuccess;
}

ResultCode SharedMemory::give(AllocationHandle handle, int* fd) {
  const std::lock_guard lock(mutex_);
  const Allocation& allocation = allocations_.at(handle);
  if (!allocation.exportable) return kNotSupported;
  *fd = ::fcntl(allocation.file, F_DUPFD_CLOEXEC, 0);
  return kSuccess;
}

ResultCode SharedMemory::import(int fd, AllocationHandle* handle) {
  struct stat file {};
  char target[64] = {};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const bool named = ::readlink(path.c_str(), target, sizeof(target) - 1) > 0;
  if (!named || std::strncmp(target, "/memfd:fake-device-by-hand", 26) != 0 ||
      ::fstat(fd, &file) != 0)
    return kInvalidValue;
  const std::lock_guard lock(mutex_);
  *handle = ++last_;
  allocations_[*handle] = {::fcntl(fd, F_DUPFD_CLOEXEC, 0), static_cast<std::size_t>(file.st_size),
                           true, 1};
  return kSuccess;
}

ResultCode SharedMemory::reserve(std::size_t bytes, DevicePtr* address) {
  std::byte* const at = reserved(bytes);
  if (at == nullptr) return kOutOfMemory;
  *address = reinterpret_cast<DevicePtr>(at);
  return kSuccess;
}

ResultCode SharedMemory::unreserve(DevicePtr address, std::size_t bytes) {
  return ::munmap(reinterpret_cast<void*>(address), bytes) == 0 ? kSuccess : kInvalidValue;
}

ResultCode SharedMemory::map(DevicePtr address, std::size_t bytes, AllocationHandle handle) {
  const std::lock_guard lock(mutex_);
  Region region;
  region.bytes = bytes;
  region.id = kFirstId + handle;
  if (!map_region(region, handle)) return kInvalidValue;
  regions_[address] = region;
  return kSuccess;
}

ResultCode SharedMemory::set_access(DevicePtr address, int device) {
  const std::lock_guard lock(mutex_);
  const auto at = regions_.find(address);
  if (at == regions_.end()) return kInvalidValue;
  at->second.device = device;
  return kSuccess;
}

ResultCode SharedMemory::unmap(DevicePtr address) {
  const std::lock_guard lock(mutex_);
  const auto at = regions_.find(address);
  if (at == regions_.end()) return kInvalidValue;
  unmap_region(at->second);
  regions_.erase(at);
  return kSuccess;
}

std::optional<SharedMemory::Seen> SharedMemory::find(DevicePtr address) const {
  const std::lock_guard lock(mutex_);
  auto at = regions_.upper_bound(address);
  if (at == regions_.begin()) return std::nullopt;
  --at;
  const Region& region = at->second;
  if (address - at->first >= region.bytes || region.alias == nullptr) return std::nullopt;
  const bool freed = region.live != nullptr && region.live->id[region.place].load() != region.id;
  return Seen{at->first,     region.bytes,
              region.id,     region.live == nullptr,
              region.device, freed ? nullptr : region.alias + (address - at->first)};
}

}  // namespace larder::fake_cuda
