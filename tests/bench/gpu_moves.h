// GpuMoves: a way to move the chunks of a GpuField between its pages and its slots: the product's
// copy engines, or the ones for comparison (gpu_plain_moves.h). And the measurements of a way: all
// chunks one way, both ways at once, and at a pace.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/cuda_copy_engine.h"
#include "tests/bench/gpu_field.h"

namespace larder::bench {

using copy::cuda::Direction;

// Thread-safe for different chunks. The field outlives the object.
class GpuMoves {
 public:
  virtual ~GpuMoves() = default;
  // Returns at the end of the move.
  virtual Status move(Direction direction, std::size_t chunk) = 0;
  // Seconds of all chunks one behind the other, by the device's own clock. kUnsupported: the clock
  // does not tell this way.
  virtual Result<double> by_events(Direction) {
    return Status(Code::kUnsupported, "only the driver's own copies are timed by events");
  }
  // The way of the copies in words; empty: the driver's own.
  virtual std::string strategy() const { return {}; }
  const GpuField& field() const { return field_; }

 protected:
  explicit GpuMoves(GpuField& field) : field_(field) {}
  GpuField& field_;
};

// The product's, in one of its ways, over the field's arena, registered by the product. Every load
// is verified by its root, and every store must give the root of the first store. Stores all chunks
// once. REQUIRES: the pages are filled.
Result<std::unique_ptr<GpuMoves>> engine_moves(GpuField& field, copy::cuda::Method method,
                                               unsigned kernel_blocks);

// All chunks once, by the given number of threads, like a shim: seconds from the moment when all
// threads are ready to the end of the last.
Result<double> one_way(GpuMoves& moves, Direction direction, unsigned callers);

// The first half of the chunks loaded again and again, and the other stored, by the given number of
// threads each, until both have the wanted copies. Returns the seconds at which each copy ended, in
// no order. kOutOfRange: one side is more than kMostApart times as fast.
inline constexpr std::size_t kMostApart = 64;
struct BothEnds {
  std::vector<double> loads, stores;
};
Result<BothEnds> both_ways(GpuMoves& moves, unsigned callers, std::size_t copies);

// Copies in the background that follow each other at a rate, if the rate can be reached.
class PacedMoves {
 public:
  PacedMoves(GpuMoves& moves, Direction direction, double bytes_per_s, unsigned callers);
  ~PacedMoves();
  PacedMoves(const PacedMoves&) = delete;
  PacedMoves& operator=(const PacedMoves&) = delete;
  // Ends the copies. Bytes per second from the start to now, or the reason of a failed copy.
  Result<double> end();

 private:
  void run();
  void stop();
  GpuMoves& moves_;
  const Direction direction_;
  const std::chrono::duration<double> each_;
  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;  // of the next three
  std::condition_variable stopped_;
  bool stop_ = false;
  Status status_;
  std::atomic<std::size_t> begun_{0}, done_{0};
  std::vector<std::thread> threads_;  // last: the rest is in use by these
};

}  // namespace larder::bench
