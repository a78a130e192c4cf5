// LogRing: the last log lines of the native threads and of refused calls, until the engine's logger
// takes them. A full ring drops the oldest line. Thread-safe.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace larder::client {

class LogRing {
 public:
  static constexpr std::size_t kLines = 64;

  // `level` is info, warning or error. A line that repeats the one before it is dropped.
  void add(std::string_view level, std::string_view text) {
    std::string line = std::string(level) + " " + std::string(text);
    const std::lock_guard lock(mutex_);
    if (line == last_) return;
    last_ = line;
    if (lines_.size() == kLines) lines_.pop_front();
    lines_.push_back(std::move(line));
  }

  std::optional<std::string> take() {
    const std::lock_guard lock(mutex_);
    if (lines_.empty()) return std::nullopt;
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

 private:
  std::mutex mutex_;
  std::string last_;
  std::deque<std::string> lines_;
};

}  // namespace larder::client
