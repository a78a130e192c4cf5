#include "sidecar/base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "sidecar/base/json_text.h"

namespace larder::base {
namespace {

std::atomic<LogLevel> least_level{LogLevel::kInfo};
std::atomic<LogFormat> log_format{LogFormat::kText};

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
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

void append_plain(std::string& line, std::string_view text) {
  for (const char c : text) line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
}

}  // namespace

void set_log_level(LogLevel least) {
  least_level = least;
}

void set_log_format(LogFormat format) {
  log_format = format;
}

std::string log_line(LogFormat format, std::string_view time, LogLevel level, std::string_view text, LogFields fields) {
  std::string line;
  if (format == LogFormat::kJson) {
    line = "{\"ts\":" + json_text(time) + ",\"level\":\"" + level_name(level) + "\",\"msg\":" + json_text(text);
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

void log(LogLevel level, std::string_view text, LogFields fields) {
  if (!logs(level)) return;
  const std::string line = log_line(log_format.load(std::memory_order_relaxed), timestamp(), level, text, fields) + '\n';
  // A log that cannot be written has no other place to say so.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace larder::base
