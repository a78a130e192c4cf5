// Launches: small work of a device, one launch after the other, like an engine's thread; and the
// time of each launch on that thread. A registration of memory elsewhere on the node shows in the
// worst time.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cuda/real_device.h"

namespace larder::bench {

struct LaunchTimes {
  double median_us = 0, rare_us = 0, worst_us = 0;  // rare: one in a thousand takes longer
};

// Owned by one thread; has another of its own.
class Launches {
 public:
  // kUnsupported: this driver has no cuMemsetD8Async. `device` outlives the object.
  static Result<std::unique_ptr<Launches>> begin(copy::testing_support::RealDevice& device);
  ~Launches();
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;
  // Ends the launches; returns the reason of a failed one.
  Result<LaunchTimes> end();

 private:
  using Set = int(copy::cuda::DevicePtr, unsigned char, std::size_t, copy::cuda::Handle);
  static constexpr std::size_t kBytes = 4096;
  static constexpr std::size_t kMost = 1 << 24;

  Launches(copy::testing_support::RealDevice& device, Set* set, std::byte* memory)
      : device_(device), set_(set), memory_(memory) {}
  void run();
  copy::testing_support::RealDevice& device_;
  Set* const set_;
  std::byte* const memory_;
  std::atomic<bool> stop_{false};
  Status failed_;
  std::vector<float> us_;
  std::thread thread_;
};

}  // namespace larder::bench
