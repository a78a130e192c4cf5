#include "sidecar/base/log_throttle.h"

#include <algorithm>

#include "shim/base/utf8.h"

namespace larder::base {
namespace {

// The clock is constructed first, so it is destroyed last: the destructor of the throttle may use
// the clock.
LogThrottle& of_this_process() {
  static const MonotonicClock clock;
  static LogThrottle throttle(clock);
  return throttle;
}

// A throttle of its own: a refusal stays in the table for minutes, and must not take the place of a
// source that needs it for a second.
LogThrottle& refusals() {
  static const MonotonicClock clock;
  static LogThrottle throttle(clock, LogThrottle::kMostMs);
  return throttle;
}

void write_count(std::string_view source, LogLevel level, std::uint64_t left_out) {
  log(level, "left out: " + std::to_string(left_out) +
                 (left_out == 1 ? " more line of " : " more lines of ") + std::string(source));
}

}  // namespace

LogThrottle::~LogThrottle() {
  tell_all();
}

void LogThrottle::tell_all() {
  // Called at the end of the process: without these lines the log would hide the size of a flood.
  const std::lock_guard lock(mutex_);
  for (const auto& [name, source] : sources_)
    if (source.left_out > 0) write_count(name, source.level, source.left_out);
  sources_.clear();
  due_ms_ = UINT64_MAX;
}

void LogThrottle::log(std::string_view source, LogLevel level, std::string_view text,
                      LogFields fields) {
  if (!logs(level)) return;
  const std::uint64_t now_ms = clock_.now_ms();
  const std::lock_guard lock(mutex_);
  tell_due(now_ms);
  // The name may come from an engine or client. The cut bounds the memory of the table.
  Source& one = source_of(cut_text(source, kMostSourceBytes));
  // Within the period: count the line, and remember the highest level, so that a filter on errors
  // still finds the count.
  if (now_ms < one.next_ms) {
    ++one.left_out;
    due_ms_ = std::min(due_ms_.load(), one.next_ms);
    one.level = std::max(one.level, level);
    return;
  }
  next_period(one, now_ms);
  // Due at the end of the quiet time as well: a source that logs no more must leave the table.
  due_ms_ = std::min(due_ms_.load(), one.next_ms + one.every_ms);
  base::log(level, text, fields);
}

void LogThrottle::tell() {
  const std::uint64_t now_ms = clock_.now_ms();
  // Without the lock: the event loop calls tell() every tick, and mostly no count is due. A stale
  // value only delays a count by one tick.
  if (now_ms < due_ms_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  tell_due(now_ms);
}

std::size_t LogThrottle::sources() const {
  const std::lock_guard lock(mutex_);
  return sources_.size();
}

void LogThrottle::next_period(Source& source, std::uint64_t now_ms) const {
  source.every_ms = source.every_ms == 0 ? least_ms_ : std::min(source.every_ms * 2, kMostMs);
  source.next_ms = now_ms + source.every_ms;
}

// A count is a line of its source too, and starts the next period.
void LogThrottle::tell_due(std::uint64_t now_ms) {
  if (now_ms < due_ms_.load(std::memory_order_relaxed)) return;
  std::uint64_t due_ms = UINT64_MAX;
  for (auto next = sources_.begin(); next != sources_.end();) {
    auto& [name, source] = *next;
    // Quiet for a whole period after the last one: the next line of this source counts as its
    // first.
    if (source.left_out == 0 && now_ms >= source.next_ms + source.every_ms) {
      next = sources_.erase(next);
      continue;
    }
    if (source.left_out > 0 && now_ms >= source.next_ms) {
      write_count(name, source.level, source.left_out);
      source.left_out = 0;
      source.level = LogLevel::kDebug;
      next_period(source, now_ms);
    }
    due_ms = std::min(due_ms, source.next_ms + (source.left_out > 0 ? 0 : source.every_ms));
    ++next;
  }
  due_ms_ = due_ms;
}

LogThrottle::Source& LogThrottle::source_of(std::string_view name) {
  if (const auto found = sources_.find(name); found != sources_.end()) return found->second;
  // The table is full: all further sources share one row. A flood with many names therefore costs
  // neither memory nor lines without bound.
  return sources_[std::string(sources_.size() < kMostSources ? name : kOthers)];
}

// For every line that an engine, a client, a review or an absent API server can cause repeatedly.
// log() alone would fill the disk.
void log_from(std::string_view source, LogLevel level, std::string_view text, LogFields fields) {
  of_this_process().log(source, level, text, fields);
}

// Session numbers, counts and namespaces would otherwise make a new cause of each line.
std::string without_numbers(std::string_view text) {
  // Namespace ids and tokens have 16 hex digits or more. Shorter runs of hex letters occur in
  // English words ("added", "face").
  constexpr std::size_t kLeastId = 16;
  std::string kept;
  while (!text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::size_t id = std::min(text.find_first_not_of("0123456789abcdef"), text.size());
    // An id may begin with a digit, so the longer run counts first.
    const std::size_t taken = id >= kLeastId ? id : digits;
    if (taken == 0)
      kept += text.front();
    else if (!kept.ends_with('#'))
      kept += '#';
    text.remove_prefix(std::max<std::size_t>(taken, 1));
  }
  return kept;
}

// For every failure that lasts until a person repairs the cause, such as an engine with another
// protocol version.
void log_refusal(std::string_view who, std::string_view cause, LogLevel level,
                 std::string_view text, LogFields fields) {
  refusals().log(std::string(who) + ": " + without_numbers(cause), level, text, fields);
}

void tell_left_out() {
  of_this_process().tell();
  refusals().tell();
}

void tell_all_left_out() {
  of_this_process().tell_all();
  refusals().tell_all();
}

}  // namespace larder::base
