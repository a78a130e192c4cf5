#include "sidecar/base/log_throttle.h"

#include <algorithm>

namespace larder::base {
namespace {

LogThrottle& of_this_process() {
  static const MonotonicClock clock;
  static LogThrottle throttle(clock);
  return throttle;
}

void write_count(std::string_view source, LogLevel level, std::uint64_t left_out) {
  log(level,
      "left out: " + std::to_string(left_out) + (left_out == 1 ? " more line of " : " more lines of ") + std::string(source));
}

}  // namespace

LogThrottle::~LogThrottle() {
  for (const auto& [name, source] : sources_)
    if (source.left_out > 0) write_count(name, source.level, source.left_out);
}

void LogThrottle::log(std::string_view source, LogLevel level, std::string_view text, LogFields fields) {
  if (!logs(level)) return;
  const std::uint64_t now_ms = clock_.now_ms();
  const std::lock_guard lock(mutex_);
  tell_due(now_ms);
  Source& one = source_of(source.substr(0, kMostSourceBytes));
  if (now_ms < one.next_ms) {
    ++one.left_out;
    one.level = std::max(one.level, level);
    return;
  }
  one.next_ms = now_ms + kEveryMs;
  due_ms_ = std::min(due_ms_.load(), one.next_ms);
  base::log(level, text, fields);
}

void LogThrottle::tell() {
  const std::uint64_t now_ms = clock_.now_ms();
  if (now_ms < due_ms_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  tell_due(now_ms);
}

std::size_t LogThrottle::sources() const {
  const std::lock_guard lock(mutex_);
  return sources_.size();
}

// A count is a line of its source: the next one comes a second later.
void LogThrottle::tell_due(std::uint64_t now_ms) {
  if (now_ms < due_ms_.load(std::memory_order_relaxed)) return;
  std::uint64_t due_ms = UINT64_MAX;
  for (auto next = sources_.begin(); next != sources_.end();) {
    auto& [name, source] = *next;
    if (now_ms >= source.next_ms && source.left_out == 0) {
      next = sources_.erase(next);
      continue;
    }
    if (now_ms >= source.next_ms) {
      write_count(name, source.level, source.left_out);
      source = {now_ms + kEveryMs, 0, LogLevel::kDebug};
    }
    due_ms = std::min(due_ms, source.next_ms);
    ++next;
  }
  due_ms_ = due_ms;
}

LogThrottle::Source& LogThrottle::source_of(std::string_view name) {
  if (const auto found = sources_.find(name); found != sources_.end()) return found->second;
  return sources_[std::string(sources_.size() < kMostSources ? name : kOthers)];
}

void log_from(std::string_view source, LogLevel level, std::string_view text, LogFields fields) {
  of_this_process().log(source, level, text, fields);
}

void tell_left_out() {
  of_this_process().tell();
}

}  // namespace larder::base
