// GpuMoves: a way to move the chunks of a GpuField between its pages and its slots: the copy engines of the product, or those that they are measured by
// (gpu_plain_moves.h). And what is measured of a way: all chunks one way, both ways at once, and at a pace.
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

// Thread-safe for different chunks. The field outlives it.
class GpuMoves {
 public:
  virtual ~GpuMoves() = default;
  // Returns when it is done.
  virtual Status move(Direction direction, std::size_t chunk) = 0;
  // Seconds of all chunks one behind the other, by the device's own clock. kUnsupported: it tells none of this way.
  virtual Result<double> by_events(Direction) {
    return Status(Code::kUnsupported, "only the driver's own copies are timed by events");
  }
  // By what its copies go, in words; empty: the driver's own.
  virtual std::string strategy() const { return {}; }
  const GpuField& field() const { return field_; }

 protected:
  explicit GpuMoves(GpuField& field) : field_(field) {}
  GpuField& field_;
};

// The product's, in one of its ways, over the field's arena as it registers it. Every load is verified by its root, and every store must give the root
// that the first one gave. Stores all chunks once. REQUIRES: the pages are filled.
Result<std::unique_ptr<GpuMoves>> engine_moves(GpuField& field, copy::cuda::Method method, unsigned kernel_blocks);

// All chunks once, by so many threads, as a shim has them: seconds from when all of them are ready to when the last is done.
Result<double> one_way(GpuMoves& moves, Direction direction, unsigned callers);

// The first half of the chunks loaded again and again, and the other stored, by so many threads each, until both have so many copies: the seconds
// at which each copy ended, in no order. kOutOfRange: one side is more than kMostApart times as fast.
inline constexpr std::size_t kMostApart = 64;
struct BothEnds {
  std::vector<double> loads, stores;
};
Result<BothEnds> both_ways(GpuMoves& moves, unsigned callers, std::size_t copies);

// Copies in the background that follow each other at a rate, as far as it can be had.
class PacedMoves {
 public:
  PacedMoves(GpuMoves& moves, Direction direction, double bytes_per_s, unsigned callers);
  ~PacedMoves();
  PacedMoves(const PacedMoves&) = delete;
  PacedMoves& operator=(const PacedMoves&) = delete;
  // Ends them. Bytes per second from the start to now, or why a copy failed.
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
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace larder::bench
