#include "sidecar/base/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "shim/base/utf8.h"
#include "sidecar/base/json_text.h"
#include "sidecar/base/log_drain.h"
#include "sidecar/base/stamped_line.h"

namespace larder::base {
namespace {

// Atomic: a reload sets the level while other threads log.
std::atomic<LogLevel> least_level{LogLevel::kInfo};
std::atomic<LogFormat> log_format{LogFormat::kText};

// Wall-clock time, in UTC with milliseconds: people compare these lines with the logs of other
// machines. All deadlines use MonotonicClock instead, because an administrator or NTP may set the
// wall clock.
std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%s.%03dZ", date.data(), static_cast<int>(millis));
  return text.data();
}

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "?";
}

// Line ends and tabs become spaces for human readers; other control characters are escaped.
void append_plain(std::string& line, std::string_view text) {
  std::string one_line(text);
  // A text with several lines, such as an error of a library, stays one record for `grep`.
  std::ranges::replace_if(
      one_line, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  line += clean_text(one_line);
}

}  // namespace

void set_log_level(LogLevel least) {
  least_level = least;
}

void set_log_format(LogFormat format) {
  log_format = format;
}

// The JSON form puts fields beside "msg", for log collectors that index top-level keys. Example:
// {"ts":"2026-11-21T09:33:57.123Z","level":"info","msg":"attached","session":"3"}.
std::string log_line(LogFormat format, std::string_view time, LogLevel level, std::string_view text,
                     LogFields fields) {
  std::string line;
  if (format == LogFormat::kJson) {
    line = "{\"ts\":" + json_text(time) + ",\"level\":\"" + level_name(level) +
           "\",\"msg\":" + json_text(text);
    for (const auto& [key, value] : fields) line += "," + json_text(key) + ":" + json_text(value);
    return line + "}";
  }
  line = std::string(time) + " " + level_name(level) + " ";
  append_plain(line, text);
  for (const auto& [key, value] : fields) {
    line += " " + std::string(key) + "=";
    append_plain(line, value);
  }
  return line;
}

bool logs(LogLevel level) {
  return level >= least_level.load(std::memory_order_relaxed);
}

// The level is checked before the line is built: debug lines cost no formatting in production.
// Callers never pass a secret: passwords stay in files, and errors never repeat a value that may
// hold one by mistake.
void log(LogLevel level, std::string_view text, LogFields fields) {
  if (!logs(level)) return;
  write_line(stamped_line(level, text, fields));
}

std::string stamped_line(LogLevel level, std::string_view text, LogFields fields) {
  return log_line(log_format.load(std::memory_order_relaxed), timestamp(), level, text, fields) +
         '\n';
}

}  // namespace larder::base
