#include "tests/cuda/fake_driver/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tests/cuda/fake_driver/captures.h"

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

std::byte* Memory::allocate(std::size_t bytes, bool without_context, bool by_the_driver) {
  const std::lock_guard lock(mutex_);
  const std::size_t start = (used_ + 255) / 256 * 256;
  if (bytes > kHeapBytes - start) std::abort();
  used_ = start + bytes;
  const std::size_t place = ++last_id_ % LiveTable::kMost;
  live().id[place] = last_id_;
  allocated_[reinterpret_cast<DevicePtr>(device_) + start] = {bytes, without_context, by_the_driver, place, last_id_};
  return device_ + start;
}

// REQUIRES: the mutex is held, and there is one.
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
  return SharedMemory::name(file_, heap.base - reinterpret_cast<DevicePtr>(device_), heap.bytes, heap.id % LiveTable::kMost,
                            heap.id);
}

// What lies at the end is given out again, the rest at reset().
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
  allocated_.clear();
  ::madvise(alias_, used_, MADV_REMOVE);  // what lives as well
  used_ = sizeof(LiveTable);
}

bool Memory::on_device(DevicePtr address, std::size_t bytes) const {
  if (const std::optional<SharedMemory::Seen> seen = shared_memory().find(address))
    return seen->view != nullptr && bytes <= seen->bytes - (address - seen->base);
  const std::lock_guard lock(mutex_);
  auto at = allocated_.upper_bound(address);
  if (at == allocated_.begin()) return false;
  --at;
  return address - at->first <= at->second.bytes && bytes <= at->second.bytes - (address - at->first);
}

bool Memory::of_a_context(DevicePtr address) const {
  if (const std::optional<SharedMemory::Seen> seen = shared_memory().find(address)) return !seen->by_hand;
  const std::lock_guard lock(mutex_);
  auto at = allocated_.upper_bound(address);
  return at != allocated_.begin() && !(--at)->second.without_context;
}

bool Memory::add_pinned(void* memory, std::size_t bytes, bool registered) {
  const std::lock_guard lock(mutex_);
  const auto start = reinterpret_cast<DevicePtr>(memory);
  const auto next = pinned_.lower_bound(start);
  if (next != pinned_.end() && next->first < start + bytes) return false;
  if (next != pinned_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > start) return false;
  pinned_[start] = {bytes, registered};
  return true;
}

bool Memory::remove_pinned(void* memory, bool registered) {
  const std::lock_guard lock(mutex_);
  const auto at = pinned_.find(reinterpret_cast<DevicePtr>(memory));
  if (at == pinned_.end() || at->second.registered != registered) return false;
  pinned_.erase(at);
  return true;
}

bool Memory::pinned(DevicePtr address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto at = pinned_.upper_bound(address);
  if (at == pinned_.begin()) return false;
  --at;
  return address - at->first <= at->second.bytes && bytes <= at->second.bytes - (address - at->first);
}

std::uint64_t Memory::pinned_bytes(bool registered) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [start, pinned] : pinned_)
    if (pinned.registered == registered) bytes += pinned.bytes;
  return bytes;
}

std::byte* Memory::for_copy(DevicePtr address, std::size_t bytes) const {
  if (on_device(address, bytes)) return view(address);
  return pinned(address, bytes) ? reinterpret_cast<std::byte*>(address) : nullptr;
}

std::byte* Memory::for_kernel(DevicePtr address, std::size_t bytes) const {
  if (on_device(address, bytes)) return view(address);
  return address >= kMapped && pinned(address - kMapped, bytes) ? reinterpret_cast<std::byte*>(address - kMapped) : nullptr;
}

void Faults::add(const std::string& function, int nth, ResultCode code, bool sticky, int times) {
  const std::lock_guard lock(mutex_);
  faults_[function] = {nth, times, code, sticky};
}

void Faults::clear() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
  sticky_ = copy::cuda::kSuccess;
}

ResultCode Faults::next(const std::string& function) {
  const std::lock_guard lock(mutex_);
  if (sticky_ != copy::cuda::kSuccess) return sticky_;
  const auto at = faults_.find(function);
  if (at == faults_.end() || --at->second.nth > 0) return copy::cuda::kSuccess;
  const Fault fault = at->second;
  if (--at->second.times <= 0) faults_.erase(at);
  if (fault.sticky) sticky_ = fault.code;
  return fault.code;
}

ResultCode Faults::sticky() const {
  const std::lock_guard lock(mutex_);
  return sticky_;
}

void Faults::set_sticky(ResultCode code) {
  const std::lock_guard lock(mutex_);
  sticky_ = code;
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::add(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> next = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    next();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void Point::reach() {
  const std::lock_guard lock(mutex);
  reached = true;
  when = std::chrono::steady_clock::now();
  changed.notify_all();
}

bool Point::over() {
  const std::lock_guard lock(mutex);
  return reached;
}

void Point::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return reached; });
}

Stream* Device::stream(void* handle) {
  const std::lock_guard lock(mutex);
  if (handle == nullptr) return &default_stream;
  const auto at = streams.find(handle);
  return at == streams.end() ? nullptr : at->second.get();
}

Device& device() {
  static Device* const the = new Device;  // threads of the process may outlive its statics
  return *the;
}

void reset() {
  Device& d = device();
  d.faults.clear();
  captures().forget();
  d.default_stream.wait();
  const std::lock_guard lock(d.mutex);
  d.streams.clear();
  d.events.clear();
  d.memory.forget_all();
  d.counted = {};
  d.delays.clear();
  d.behind.clear();
}

std::byte* allocate(std::size_t bytes, bool without_context) {
  return device().memory.allocate(bytes, without_context);
}

std::byte* view(const void* device_address) {
  return device().memory.view(reinterpret_cast<DevicePtr>(device_address));
}

void free_unasked(std::byte* page) {
  device().memory.free_unasked(reinterpret_cast<DevicePtr>(page));
}

std::byte* map_by_hand(std::size_t bytes, bool exportable) {
  return shared_memory().create(bytes, exportable);
}

void unmap_by_hand(std::byte* page) {
  shared_memory().unmap_own(reinterpret_cast<DevicePtr>(page));
}

void map_again(std::byte* page, bool same_id) {
  shared_memory().map_again(reinterpret_cast<DevicePtr>(page), same_id);
}

void fail(const char* function, int nth, int code, bool sticky, int times) {
  device().faults.add(function, nth, code, sticky, times);
}

void forget_faults() {
  device().faults.clear();
}

void delay_ms(int milliseconds, const char* kind) {
  const std::lock_guard lock(device().mutex);
  for (const char* each : {"copy", "kernel", "digest"})
    if (kind == nullptr || std::strcmp(kind, each) == 0) device().delays[each] = milliseconds;
}

void then(const char* kind, std::function<void()> work) {
  const std::lock_guard lock(device().mutex);
  device().behind[kind] = std::move(work);
}

void run(void* stream, std::function<void()> work) {
  device().stream(stream)->add(std::move(work));
}

void* make_stream() {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  auto stream = std::make_unique<Stream>();
  void* const handle = stream.get();
  d.streams.emplace(handle, std::move(stream));
  return handle;
}

Counters counters() {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  Counters now = d.counted;
  now.registered_bytes = d.memory.pinned_bytes(true);
  now.pinned_bytes = d.memory.pinned_bytes(false);
  now.device_bytes = d.memory.device_bytes();
  now.streams = d.streams.size();
  now.events = d.events.size();
  return now;
}

}  // namespace larder::fake_cuda
