// Toucher: a thread that makes every page of the arena present, in steps, so that engines never wait for a first touch.
//
// touched_bytes() and problem() are thread-safe. The memory outlives the object; its destructor stops the thread within one step.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <thread>

namespace larder::ipc {

class Toucher {
 public:
  explicit Toucher(std::span<std::byte> memory);

  // From the start on; grows.
  std::uint64_t touched_bytes() const { return touched_.load(std::memory_order_acquire); }
  // errno of the step that failed, after which no more is touched; 0 if none did.
  int problem() const { return problem_.load(std::memory_order_acquire); }

 private:
  void run(const std::stop_token& stop);

  std::span<std::byte> memory_;
  std::atomic<std::uint64_t> touched_{0};
  std::atomic<int> problem_{0};
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace larder::ipc
