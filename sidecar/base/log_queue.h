// LogQueue: a queue of lines for a descriptor. A thread of the queue writes the lines and may
// block; the caller of add() never waits.
//
// The queue is bounded. With a full queue a new line is dropped and counted, and so is a line that
// the descriptor refuses (a full disk, a closed pipe). Once writes work again, one line in the
// place of the gap gives the number of missing lines. The descriptor keeps its flags: O_NONBLOCK
// belongs to the open file, which other processes share (a terminal, the pipe of a container).
// Thread-safe.
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
