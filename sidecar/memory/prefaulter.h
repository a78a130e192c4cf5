// Prefaulter: threads that make every page of the arena present, span by span. larderd grants only
// slots with present pages, so engines never wait for a first touch.
//
// The kernel holds the lock of the process's memory map while it clears a page: 0.14 s for a page
// of 1 GiB, or 2.5 s if a hypervisor must find the memory first (measured). A thread that maps
// memory in the meantime waits, such as the event loop when an engine attaches. fallocate() would
// lock the file instead, and attaching engines would wait with all their threads.
//
// touched_bytes() and problem() are thread-safe. The memory outlives the object. The destructor
// stops the threads within one span.
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
  // `page_bytes`: the page size of the memory; one thread touches a page. `present`: so many bytes
  // from the start are present already.
  Prefaulter(std::span<std::byte> memory, std::size_t page_bytes, std::uint64_t present = 0);
  ~Prefaulter();

  // The number of threads on this machine: one for each processor that this process may use, at
  // most kMostThreads.
  static unsigned thread_count();
  static constexpr unsigned kMostThreads = 8;

  // All pages up to this byte are present. Only grows.
  std::uint64_t touched_bytes() const { return touched_.load(std::memory_order_acquire); }
  // The errno of the first failed span, or 0. The threads stop after a failure.
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
  std::mutex mutex_;  // guards the next three members
  std::vector<bool> finished_;
  std::size_t first_unfinished_ = 0;
  std::uint64_t reported_ = 0;
  std::vector<std::jthread> threads_;  // last: the threads use the other members
};

}  // namespace larder::memory
