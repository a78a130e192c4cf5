// LogDrain: from its making on, the lines of this process go through a LogQueue to standard error, so that a reader that has stopped
// (a full pipe, a hung log collector) holds up no thread. Programs without one (larderctl, tests) write each line at once.
//
// Thread-safe, but for making and destruction.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace larder::base {

class LogDrain {
 public:
  static constexpr std::chrono::milliseconds kMostToEnd{1000};

  // One in a process, made by main(). Throws std::system_error where no thread can be started.
  LogDrain();
  // Waits for the lines of the end, kMostToEnd at most. Lines that come later go into the queue still.
  ~LogDrain();
  LogDrain(const LogDrain&) = delete;
  LogDrain& operator=(const LogDrain&) = delete;
};

// One line of standard error, as it is: without time and level, and with its end.
void write_line(std::string line);
// Waits until the lines so far are written, at most so long: before _exit().
void flush_log(std::chrono::milliseconds most);
// Lines that this process has dropped, and what was noted.
std::uint64_t dropped_log_lines();
// So many lines of this process were dropped by the process that hands them on.
void note_dropped_lines(std::uint64_t lines);

}  // namespace larder::base
