#include "sidecar/base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

namespace larder::base {
namespace {

std::atomic<LogLevel> least_level{LogLevel::kInfo};

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

}  // namespace

void set_log_level(LogLevel least) {
  least_level = least;
}

void log(LogLevel level, std::string_view text) {
  if (level < least_level.load(std::memory_order_relaxed)) return;
  std::string line = timestamp() + " " + level_name(level) + " ";
  for (const char c : text) line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  line += '\n';
  // A log that cannot be written has no other place to say so.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace larder::base
