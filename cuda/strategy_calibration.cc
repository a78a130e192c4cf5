#include "cuda/strategy_calibration.h"

#include <algorithm>

#include "cuda/quiet_thread.h"

namespace larder::copy::cuda {
namespace {

// Both ways take turns, so that other load of the machine affects both.
Result<bool> kernel_is_faster(const Trial& trial, const std::atomic<bool>& stop,
                              Direction direction, std::uint64_t piece_bytes) {
  double best[2] = {};
  for (int round = 0; round < kTrialRounds; ++round)
    for (const bool kernel : {false, true}) {
      if (stop) return Status(Code::kDeadlineExceeded, "asked to stop");
      const Result<double> rate = trial(direction, kernel, piece_bytes);
      if (!rate.ok()) return rate.status();
      // The best round and not the mean: other load of the machine only ever slows a round down.
      best[kernel ? 1 : 0] = std::max(best[kernel ? 1 : 0], *rate);
    }
  return best[1] >= kKernelGain * best[0];
}

Status no_throw(const std::function<Status(std::size_t number)>& copy, std::size_t number) {
  try {
    return copy(number);
  } catch (const std::exception& error) {
    return {Code::kResourceExhausted, error.what()};
  }
}

}  // namespace

Result<StrategyTable> calibrate_strategies(const Trial& trial, const std::atomic<bool>& stop) {
  StrategyTable table;
  for (const Direction direction : {Direction::kStore, Direction::kLoad}) {
    std::uint64_t below = 0;
    for (std::uint64_t size = StrategyTable::kLeast;
         size < StrategyTable::kKernelsEnd[static_cast<std::size_t>(direction)]; size *= 2) {
      const Result<bool> kernel = kernel_is_faster(trial, stop, direction, size);
      if (!kernel.ok()) return kernel.status();
      // Larger pieces favour the copy engines still more, so the first loss ends the search.
      if (!*kernel) break;
      // The sizes are powers of two; between two of them the smaller one's result holds.
      below = 2 * size;
    }
    table.set(direction, below);
  }
  return table;
}

Result<double> steady_rate(std::size_t threads, std::size_t bytes, const std::atomic<bool>& stop,
                           const std::function<Status(std::size_t number)>& copy,
                           const std::function<std::chrono::steady_clock::time_point()>& now) {
  std::mutex mutex;
  Status failed;
  std::atomic<std::uint64_t> moved{0};
  const std::chrono::steady_clock::time_point start = now();
  {
    // As many threads as an engine has: one alone would not fill the link.
    std::vector<std::jthread> all;
    for (std::size_t number = 0; number < threads; ++number)
      all.emplace_back([&, number] {
        do {
          if (const Status status = no_throw(copy, number); !status.ok()) {
            const std::lock_guard lock(mutex);
            failed = status;
            return;
          }
          moved += bytes;
        } while (!stop && now() - start < kTrialTime);
      });
  }
  if (!failed.ok()) return failed;
  return static_cast<double>(moved) / std::chrono::duration<double>(now() - start).count();
}

StrategyCalibration::StrategyCalibration(
    std::function<Result<StrategyTable>(const std::atomic<bool>& stop)> measure)
    : thread_(quiet_thread([this, measure = std::move(measure)] {
        // Named for people who look at an engine's threads with top or py-spy.
        pthread_setname_np(pthread_self(), "larder-measure");
        Result<StrategyTable> result = [&]() -> Result<StrategyTable> {
          try {
            return measure(stop_);
          } catch (const std::exception& error) {
            return Status(Code::kResourceExhausted, error.what());
          }
        }();
        const std::lock_guard lock(mutex_);
        result_.emplace(std::move(result));
        ended_.notify_all();
      })) {}

StrategyCalibration::~StrategyCalibration() {
  stop_ = true;
  thread_.join();
}

Result<StrategyTable> StrategyCalibration::wait(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  // The engine starts with a guess after `at_most`, even if the device hangs.
  if (ended_.wait_for(lock, at_most, [this] { return result_.has_value(); })) return *result_;
  stop_ = true;
  return Status(Code::kDeadlineExceeded,
                "not done within " + std::to_string(at_most.count()) + " ms");
}

std::optional<StrategyTable> KnownWays::find(const void* context, unsigned kernel_blocks) const {
  const std::lock_guard lock(mutex_);
  for (const Known& known : known_)
    if (known.context == context && known.kernel_blocks == kernel_blocks) return known.table;
  return std::nullopt;
}

void KnownWays::keep(const void* context, unsigned kernel_blocks, const StrategyTable& table) {
  const std::lock_guard lock(mutex_);
  // A later copy engine of this process need not measure again. The bound keeps the table small.
  if (known_.size() < kMost) known_.push_back({context, kernel_blocks, table});
}

KnownWays& KnownWays::of_process() {
  // Never destroyed: threads of the engine may outlive static objects.
  static KnownWays* const the = new KnownWays;
  return *the;
}

}  // namespace larder::copy::cuda
