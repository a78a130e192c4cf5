// LogDrain: sends the log lines of this process through a LogQueue to standard error. A stopped
// reader (a full pipe, a hung log collector) then blocks only the thread of the queue. Programs
// without a LogDrain (larderctl, tests) write each line at once.
//
// Thread-safe except for construction and destruction.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace larder::base {

class LogDrain {
 public:
  static constexpr std::chrono::milliseconds kMostToEnd{1000};

  // main() makes the only LogDrain of the process. Throws std::system_error if no thread can start.
  LogDrain();
  // Waits until the queue is written, kMostToEnd at most. Later lines still go into the queue.
  ~LogDrain();
  LogDrain(const LogDrain&) = delete;
  LogDrain& operator=(const LogDrain&) = delete;
};

// Writes `line` unchanged to standard error. `line` includes its line end.
void write_line(std::string line);
// Waits until the lines so far are written, for `most` at most. For use before _exit().
void flush_log(std::chrono::milliseconds most);
// The lines that this process dropped, plus the lines of note_dropped_lines().
std::uint64_t dropped_log_lines();
// Adds lines of this process that the supervisor dropped on their way to standard error.
void note_dropped_lines(std::uint64_t lines);

}  // namespace larder::base
