// StrategyCalibration: fills a StrategyTable with rates measured on this machine. Measures on its
// own thread, so that the start of an engine waits for a bounded time even if the device hangs.
// KnownWays keeps the results for the process.
//
// Owned by one thread. The destructor waits for the current copy.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/strategy_table.h"
#include "shim/base/status.h"

namespace larder::copy::cuda {

// The rate of copies in pieces of that size, in bytes a second.
using Trial =
    std::function<Result<double>(Direction direction, bool kernel, std::uint64_t piece_bytes)>;

// Goes up from the smallest size in each direction while kernels are faster by kKernelGain, by the
// best of kTrialRounds. kUnavailable, kResourceExhausted: from a trial. kDeadlineExceeded: `stop`
// was set.
Result<StrategyTable> calibrate_strategies(const Trial& trial, const std::atomic<bool>& stop);
// The first round meets cold caches and unloaded code.
inline constexpr int kTrialRounds = 3;
// Kernels take multiprocessors from the model and copy engines do not, so kernels must be this much
// faster.
inline constexpr double kKernelGain = 1.3;

// The common rate of several threads. Each thread copies `bytes` at least once and repeats for
// kTrialTime. `copy`(number of the thread) makes one copy. All threads read the clock `now`. Throws
// std::system_error where no thread can be made.
Result<double> steady_rate(std::size_t threads, std::size_t bytes, const std::atomic<bool>& stop,
                           const std::function<Status(std::size_t number)>& copy,
                           const std::function<std::chrono::steady_clock::time_point()>& now =
                               std::chrono::steady_clock::now);
inline constexpr std::size_t kTrialThreads = 4;
inline constexpr std::chrono::milliseconds kTrialTime{4};  // about 200 MB on a link of 50 GB/s

class StrategyCalibration {
 public:
  // Throws std::system_error where no thread can be made.
  explicit StrategyCalibration(
      std::function<Result<StrategyTable>(const std::atomic<bool>& stop)> measure);
  ~StrategyCalibration();
  StrategyCalibration(const StrategyCalibration&) = delete;
  StrategyCalibration& operator=(const StrategyCalibration&) = delete;

  // kDeadlineExceeded: the measurement took longer. A later result is discarded.
  Result<StrategyTable> wait(std::chrono::milliseconds at_most);

 private:
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Result<StrategyTable>> result_;
  std::thread thread_;
};

// The measured tables of this process, by context and number of multiprocessors; at most kMost.
// Thread-safe.
class KnownWays {
 public:
  static constexpr std::size_t kMost = 64;
  std::optional<StrategyTable> find(const void* context, unsigned kernel_blocks) const;
  void keep(const void* context, unsigned kernel_blocks, const StrategyTable& table);
  static KnownWays& of_process();

 private:
  struct Known {
    const void* context;
    unsigned kernel_blocks;
    StrategyTable table;
  };
  mutable std::mutex mutex_;
  std::vector<Known> known_;
};

}  // namespace larder::copy::cuda
