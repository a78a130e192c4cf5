#include "sidecar/base/log_drain.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "sidecar/base/log.h"
#include "sidecar/base/log_queue.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/base/stamped_line.h"

namespace larder::base {
namespace {

std::atomic<std::uint64_t> noted{0};
std::atomic<LogQueue*> queue{
    nullptr};  // lives as long as the process: static objects may log in their destructors

// Has the format of the log, so a collector that reads JSON can also read the line about the gap.
std::string count_line(std::uint64_t lines) {
  return stamped_line(LogLevel::kWarning,
                      std::to_string(lines) + (lines == 1 ? " line" : " lines") +
                          " of this log are missing: standard error took no more");
}

}  // namespace

LogDrain::LogDrain() {
  // Never deleted: see `queue`. A thread stuck in write() also uses the object until the process
  // ends.
  queue = new LogQueue(STDERR_FILENO, count_line);
}

LogDrain::~LogDrain() {
  // First the counts of the throttles, so that these lines are part of the flushed text.
  tell_all_left_out();
  flush_log(kMostToEnd);
}

void write_line(std::string line) {
  if (LogQueue* const to = queue.load(std::memory_order_acquire); to != nullptr)
    return to->add(std::move(line));
  // A log that cannot be written has no other place to say so.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void flush_log(std::chrono::milliseconds most) {
  if (LogQueue* const to = queue.load(std::memory_order_acquire); to != nullptr) to->flush(most);
}

std::uint64_t dropped_log_lines() {
  const LogQueue* const to = queue.load(std::memory_order_acquire);
  // Includes the supervisor's lines: Prometheus scrapes larderd, and nothing scrapes the
  // supervisor.
  return noted + (to == nullptr ? 0 : to->dropped());
}

void note_dropped_lines(std::uint64_t lines) {
  noted += lines;
}

}  // namespace larder::base
