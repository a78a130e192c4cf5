#include "tests/cuda/fake_driver/device.h"

#include <algorithm>
#include <cstring>

#include "tests/cuda/fake_driver/captures.h"
#include "tests/cuda/fake_driver/contexts.h"

namespace larder::fake_cuda {
void Faults::add(const std::string& function, int nth, ResultCode code, bool sticky, int times) {
  const std::lock_guard lock(mutex_);
  faults_[function] = {nth, times, code, sticky};
}

void Faults::clear() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
  std::ranges::fill(sticky_, copy::cuda::kSuccess);
}

ResultCode Faults::next(const std::string& function, int device) {
  const std::lock_guard lock(mutex_);
  if (device >= 0 && sticky_[device] != copy::cuda::kSuccess) return sticky_[device];
  const auto at = faults_.find(function);
  if (at == faults_.end() || --at->second.nth > 0) return copy::cuda::kSuccess;
  const Fault fault = at->second;
  if (--at->second.times <= 0) faults_.erase(at);
  if (fault.sticky) sticky_[std::max(device, 0)] = fault.code;
  return fault.code;
}

ResultCode Faults::sticky(int device) const {
  const std::lock_guard lock(mutex_);
  if (device >= 0) return sticky_[device];
  const auto* const any =
      std::ranges::find_if(sticky_, [](ResultCode code) { return code != copy::cuda::kSuccess; });
  return any == std::end(sticky_) ? copy::cuda::kSuccess : *any;
}

void Faults::set_sticky(int device, ResultCode code) {
  const std::lock_guard lock(mutex_);
  sticky_[device] = code;
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
  add(Item{std::move(work)});
}

void Stream::add_copies(std::function<void()> work, const CopiedBytes& bytes) {
  add(Item{std::move(work), bytes});
}

void Stream::add_wait(std::function<void()> work) {
  add(Item{std::move(work), {}, true});
}

void Stream::add(Item item) {
  const std::lock_guard lock(mutex_);
  if (item.waits)
    not_ready_.emplace_back();
  else if (not_ready_.empty())
    larder::fake_cuda::device().ready.add(item.bytes);
  else
    for (std::size_t i = 0; i < item.bytes.size(); ++i) not_ready_.back()[i] += item.bytes[i];
  queue_.push_back(std::move(item));
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
    const Item next = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    next.work();
    larder::fake_cuda::device().ready.end(next.bytes);
    lock.lock();
    if (next.waits) {
      larder::fake_cuda::device().ready.add(not_ready_.front());
      not_ready_.pop_front();
    }
    busy_ = false;
    changed_.notify_all();
  }
}

void ReadyBytes::add(const CopiedBytes& bytes) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < bytes.size(); ++i) most_[i] = std::max(most_[i], now_[i] += bytes[i]);
}

void ReadyBytes::end(const CopiedBytes& bytes) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < bytes.size(); ++i) now_[i] -= bytes[i];
}

CopiedBytes ReadyBytes::most() const {
  const std::lock_guard lock(mutex_);
  return most_;
}

void ReadyBytes::forget() {
  const std::lock_guard lock(mutex_);
  most_ = {};
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
  if (handle == nullptr) return &default_streams[std::max(0, current_device())];
  const auto at = streams.find(handle);
  return at == streams.end() ? nullptr : at->second.get();
}

void Device::spend(const std::string& kind, std::size_t bytes) {
  Cost cost;
  {
    const std::lock_guard lock(mutex);
    if (const auto at = costs.find(kind); at != costs.end()) cost = at->second;
  }
  const auto us = cost.each_us + static_cast<std::int64_t>(bytes) * cost.per_mib_us / (1 << 20);
  if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

void Device::drain() {
  std::vector<std::shared_ptr<Stream>> all;
  {
    const std::lock_guard lock(mutex);
    for (const auto& [handle, stream] : streams) all.push_back(stream);
  }
  for (const std::shared_ptr<Stream>& stream : all) stream->wait();
  for (Stream& stream : default_streams) stream.wait();
}

Device& device() {
  // Never destroyed: threads of the process may outlive static objects.
  static Device* const the = new Device;
  return *the;
}

void reset() {
  Device& d = device();
  d.faults.clear();
  captures().forget();
  for (Stream& stream : d.default_streams) stream.wait();
  {
    // Destroyed outside the lock, which their work takes.
    std::map<void*, std::shared_ptr<Stream>> gone;
    const std::lock_guard lock(d.mutex);
    gone.swap(d.streams);
  }
  const std::lock_guard lock(d.mutex);
  d.events.clear();
  d.memory.forget_all();
  d.counted = {};
  d.ready.forget();
  std::ranges::fill(d.retained, 0);
  std::ranges::fill(d.destroyed, false);
  std::ranges::fill(d.used, false);
  d.registrations.clear();
  d.processors = 132;
  d.host_pointers = true;
  d.costs.clear();
  d.behind.clear();
}

std::byte* allocate(std::size_t bytes, bool without_context, int on) {
  if (!without_context) {
    const std::lock_guard lock(device().mutex);
    device().used[on] = true;
  }
  return device().memory.allocate(bytes, on, without_context);
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
    if (kind == nullptr || std::strcmp(kind, each) == 0)
      device().costs[each].each_us = 1000 * milliseconds;
}

void cost(const char* kind, int each_us, int per_mib_us) {
  const std::lock_guard lock(device().mutex);
  device().costs[kind] = {each_us, per_mib_us};
}

void scatter_registrations() {
  device().memory.scatter();
}

void have(int processors, bool host_pointers) {
  const std::lock_guard lock(device().mutex);
  device().processors = processors;
  device().host_pointers = host_pointers;
}

void then(const char* kind, std::function<void()> work) {
  const std::lock_guard lock(device().mutex);
  device().behind[kind] = std::move(work);
}

void run(void* stream, std::function<void()> work) {
  device().stream(stream)->add(std::move(work));
}

void* make_stream(int on) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  auto stream = std::make_shared<Stream>(on);
  void* const handle = stream.get();
  d.streams.emplace(handle, std::move(stream));
  return handle;
}

std::vector<Registration> registrations() {
  const std::lock_guard lock(device().mutex);
  return device().registrations;
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
  now.most_home_bytes = d.ready.most()[0];
  now.most_away_bytes = d.ready.most()[1];
  return now;
}

}  // namespace larder::fake_cuda
