// Prefaulter: threads that make every page of the arena present, span by span, so that engines never wait for a first touch.
//
// The kernel holds the process's memory map while it clears a page. For one of 1 GiB that is 0.14 s, or 2.5 s where a hypervisor has
// to find the memory first (measured): whoever maps something meanwhile, as the event loop does when an engine attaches, waits for it.
// What would avoid it (fallocate) locks the file instead, at which attaching engines would wait with all their threads.
//
// touched_bytes() and problem() are thread-safe. The memory outlives the object; its destructor stops the threads within one span.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

namespace larder::memory {

class Prefaulter {
 public:
  // `page_bytes` is the size of the memory's pages: a page is touched by one thread. So many bytes from the start are `present` already.
  Prefaulter(std::span<std::byte> memory, std::size_t page_bytes, std::uint64_t present = 0);
  ~Prefaulter();

  // So many threads on this machine: as many as processors that this process may use, kMostThreads at most.
  static unsigned thread_count();
  static constexpr unsigned kMostThreads = 8;

  // Bytes from the start on, all of them touched; grows.
  std::uint64_t touched_bytes() const { return touched_.load(std::memory_order_acquire); }
  // errno of the first span that failed, after which no more is touched; 0 if none did.
  int problem() const { return problem_.load(std::memory_order_acquire); }

 private:
  void run(const std::stop_token& stop);
  void finish(std::size_t span);
  void give_up(int error);

  const std::span<std::byte> memory_;
  const std::size_t span_bytes_;
  std::atomic<std::size_t> next_{0};  // span
  std::atomic<std::uint64_t> touched_{0};
  std::atomic<int> problem_{0};
  std::mutex mutex_;  // of the next three
  std::vector<bool> finished_;
  std::size_t first_unfinished_ = 0;
  std::uint64_t reported_ = 0;
  std::vector<std::jthread> threads_;  // last: they use the rest
};

}  // namespace larder::memory
