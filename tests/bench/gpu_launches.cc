#include "tests/bench/gpu_launches.h"

#include <algorithm>
#include <chrono>

namespace larder::bench {

using namespace copy;

Result<std::unique_ptr<Launches>> Launches::begin(testing_support::RealDevice& device) {
  Set* const set = device.function<Set>("cuMemsetD8Async");
  if (set == nullptr)
    return Status(Code::kUnsupported, "this driver has no small work to launch (cuMemsetD8Async)");
  std::byte* const memory = device.allocate(kBytes);
  if (memory == nullptr) return Status(Code::kResourceExhausted, "the GPU has no memory left");
  std::unique_ptr<Launches> begun(new Launches(device, set, memory));
  begun->thread_ = std::thread([raw = begun.get()] { raw->run(); });
  return begun;
}

Launches::~Launches() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  device_.release(memory_);
}

// On a stream of its own. The thread waits for the stream now and then, so that its queue never is
// full.
void Launches::run() {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kBetweenWaits = 64;
  const cuda::Driver& driver = device_.driver();
  const cuda::ContextScope scope(driver, device_.context());
  cuda::Handle stream = nullptr;
  failed_ = driver.status(driver->stream_create_with_priority(&stream, cuda::kStreamNonBlocking, 0),
                          "cuStreamCreateWithPriority");
  while (failed_.ok() && !stop_ && us_.size() < kMost) {
    const Clock::time_point start = Clock::now();
    failed_ = driver.status(set_(reinterpret_cast<cuda::DevicePtr>(memory_), 0, kBytes, stream),
                            "cuMemsetD8Async");
    us_.push_back(std::chrono::duration<float, std::micro>(Clock::now() - start).count());
    if (failed_.ok() && us_.size() % kBetweenWaits == 0)
      failed_ = driver.status(driver->stream_synchronize(stream), "cuStreamSynchronize");
  }
  if (stream == nullptr) return;
  driver->stream_synchronize(stream);
  driver->stream_destroy(stream);
}

Result<LaunchTimes> Launches::end() {
  stop_ = true;
  thread_.join();
  if (!failed_.ok()) return failed_;
  if (us_.empty()) return Status(Code::kUnavailable, "nothing was launched");
  std::ranges::sort(us_);
  return LaunchTimes{us_[us_.size() / 2], us_[us_.size() * 999 / 1000], us_.back()};
}

}  // namespace larder::bench
