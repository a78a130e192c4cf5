// The engine's streams under capture into a graph, all in CUDA's default mode, and the fate of
// calls meanwhile.
//
// A call without a stream invalidates all captures, on any thread that is not in relaxed mode. The
// same holds for a call on the legacy stream, and for a wait for an event that a capture has
// recorded, because a copy behind that event would belong to the graph. Thread-safe.
#pragma once

#include <mutex>
#include <set>

#include "cuda/driver_abi.h"

namespace larder::fake_cuda {

class Captures {
 public:
  void begin(void* stream);
  // False: the capture was invalidated.
  bool end(void* stream);
  bool capturing(void* stream) const;
  bool any() const;

  // The driver's answer to a call without a stream, or on this stream.
  copy::cuda::ResultCode unordered();
  copy::cuda::ResultCode on(void* stream);
  // Invalidates all current captures.
  copy::cuda::ResultCode spoil(copy::cuda::ResultCode answer);
  void forget();

  // Sets the mode of this thread and returns the previous mode.
  static void exchange_mode(int* mode);

 private:
  mutable std::mutex mutex_;
  std::set<void*> streams_, spoilt_;
};

Captures& captures();

}  // namespace larder::fake_cuda
