// WayMeasuring: fills a WayTable from what one copy each takes on this machine, on a thread of its own, so that who starts an engine waits
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

#include "cuda/way_table.h"
#include "shim/protocol/status.h"

namespace larder::copy::cuda {

// Moves the same bytes once, in pieces of that size, and returns when it is done.
using Trial = std::function<Status(Direction direction, bool kernel, std::uint64_t piece_bytes)>;

// The faster way of each size, by the best of kTrialRounds. kUnavailable, kResourceExhausted: a trial's. kDeadlineExceeded: told to stop.
Result<WayTable> measure_ways(const Trial& trial, const std::atomic<bool>& stop);
inline constexpr int kTrialRounds = 3;  // the first of them finds cold caches and code that is not loaded yet
// Kernels take multiprocessors from the model, which copy engines do not: they have to be so much faster.
inline constexpr double kKernelGain = 1.05;

class WayMeasuring {
 public:
  // Throws std::system_error where no thread can be made.
  explicit WayMeasuring(std::function<Result<WayTable>(const std::atomic<bool>& stop)> measure);
  ~WayMeasuring();
  WayMeasuring(const WayMeasuring&) = delete;
  WayMeasuring& operator=(const WayMeasuring&) = delete;

  // kDeadlineExceeded: it took longer, and what it finds later is of no use any more.
  Result<WayTable> wait(std::chrono::milliseconds at_most);

 private:
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Result<WayTable>> result_;
  std::thread thread_;
};

// What this process has measured, by context and the kernels' multiprocessors; at most kMost. Thread-safe.
class KnownWays {
 public:
  static constexpr std::size_t kMost = 64;
  std::optional<WayTable> find(const void* context, unsigned kernel_blocks) const;
  void keep(const void* context, unsigned kernel_blocks, const WayTable& table);
  static KnownWays& of_process();

 private:
  struct Known {
    const void* context;
    unsigned kernel_blocks;
    WayTable table;
  };
  mutable std::mutex mutex_;
  std::vector<Known> known_;
};

}  // namespace larder::copy::cuda
