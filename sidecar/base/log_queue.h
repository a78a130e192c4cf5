// LogQueue: lines on their way to a descriptor. A thread of the queue's own writes them and may
// block; the caller of add() never waits.
//
// The queue is bounded. A line that finds the queue full is dropped and counted, and so is a line
// that the descriptor refuses (a full disk, a closed pipe). Once lines can be written again, one
// line says how many are missing, at the place where they are missing. The descriptor keeps its
// flags: O_NONBLOCK belongs to the open file, which other processes share (a terminal, a
// container's pipe). Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace larder::base {

class LogQueue {
 public:
  static constexpr std::size_t kMostBytes = 1 << 20;  // of waiting lines, bookkeeping included

  // The line that says how many lines are missing.
  using CountLine = std::function<std::string(std::uint64_t)>;

  // `fd` stays open as long as the process: a thread that is stuck in write() outlives the queue.
  // Throws std::system_error if no thread can start.
  LogQueue(int fd, CountLine count_line, std::size_t most_bytes = kMostBytes);
  // Gives up the lines that are still waiting.
  ~LogQueue();
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  // Queues `line` unchanged. `line` includes its line end.
  void add(std::string line);
  // Waits until all lines are written, for `most` at most. False if lines are left.
  bool flush(std::chrono::milliseconds most);
  std::uint64_t dropped() const;

 private:
  struct Shared;
  static void write_all(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_;  // with the thread
};

}  // namespace larder::base
