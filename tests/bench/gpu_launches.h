// Launches: small work of a device, one launch after the other, as an engine's thread has it; and how long each launch took that thread. What registers memory
// elsewhere on the node shows in the worst of them.
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
  // kUnsupported: this driver has no cuMemsetD8Async. `device` outlives it.
  static Result<std::unique_ptr<Launches>> begin(copy::testing_support::RealDevice& device);
  ~Launches();
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;
  // Ends them, and why one failed.
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
