// StrategyCalibration: fills a StrategyTable from the rates that copies reach on this machine, on a thread of its own, so that who starts an engine waits
// for it no longer than told, whatever the device does. And what was measured is kept for the process.
//
// Owned by one thread. Its destructor waits for the copy that is under way.
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

// The rate at which copies go in pieces of that size, in bytes a second.
using Trial = std::function<Result<double>(Direction direction, bool kernel, std::uint64_t piece_bytes)>;

// From the least size on, in each direction, as long as kernels are so much faster by the best of kTrialRounds. kUnavailable, kResourceExhausted: a trial's.
// kDeadlineExceeded: told to stop.
Result<StrategyTable> calibrate_strategies(const Trial& trial, const std::atomic<bool>& stop);
inline constexpr int kTrialRounds = 3;  // the first of them finds cold caches and code that is not loaded yet
// Kernels take multiprocessors from the model, which copy engines do not: they have to be so much faster.
inline constexpr double kKernelGain = 1.3;

// What several threads together copy a second, each `bytes` again and again for kTrialTime and at least once. `copy`(number of the thread) makes one. `now`: the
// clock, which all threads ask. Throws std::system_error where no thread can be made.
Result<double> steady_rate(std::size_t threads, std::size_t bytes, const std::atomic<bool>& stop,
                           const std::function<Status(std::size_t number)>& copy,
                           const std::function<std::chrono::steady_clock::time_point()>& now = std::chrono::steady_clock::now);
inline constexpr std::size_t kTrialThreads = 4;
inline constexpr std::chrono::milliseconds kTrialTime{4};  // some 200 MB on a link of 50 GB/s

class StrategyCalibration {
 public:
  // Throws std::system_error where no thread can be made.
  explicit StrategyCalibration(std::function<Result<StrategyTable>(const std::atomic<bool>& stop)> measure);
  ~StrategyCalibration();
  StrategyCalibration(const StrategyCalibration&) = delete;
  StrategyCalibration& operator=(const StrategyCalibration&) = delete;

  // kDeadlineExceeded: it took longer, and what it finds later is of no use any more.
  Result<StrategyTable> wait(std::chrono::milliseconds at_most);

 private:
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Result<StrategyTable>> result_;
  std::thread thread_;
};

// What this process has measured, by context and the kernels' multiprocessors; at most kMost. Thread-safe.
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
