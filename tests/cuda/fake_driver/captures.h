// Streams of the engine's that are being captured into a graph, all of them in CUDA's default mode, and what becomes of calls meanwhile.
//
// A call that belongs to no stream spoils them, of whatever thread, unless that thread has said that it is relaxed. So does one that touches the
// legacy stream, or that waits for an event which a capture has recorded: a copy of ours behind it would be the graph's. Thread-safe.
#pragma once

#include <mutex>
#include <set>

#include "cuda/driver_abi.h"

namespace larder::fake_cuda {

class Captures {
 public:
  void begin(void* stream);
  // False: it was spoilt.
  bool end(void* stream);
  bool capturing(void* stream) const;
  bool any() const;

  // The answer of a call of this kind.
  copy::cuda::ResultCode unordered();
  copy::cuda::ResultCode on(void* stream);
  // Everything that is captured just now is void.
  copy::cuda::ResultCode spoil(copy::cuda::ResultCode answer);
  void forget();

  // Of this thread; gives back the one before.
  static void exchange_mode(int* mode);

 private:
  mutable std::mutex mutex_;
  std::set<void*> streams_, spoilt_;
};

Captures& captures();

}  // namespace larder::fake_cuda
