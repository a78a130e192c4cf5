// The sidecar's log: one line a record on standard error, "2026-11-21T09:33:57.123Z level text".
//
// Thread-safe; a line is one write. `text` must hold no secret. Control characters are replaced, so that nothing an engine sends
// can forge a line.
#pragma once

#include <string_view>

namespace larder::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void set_log_level(LogLevel least);
void log(LogLevel level, std::string_view text);

inline void log_debug(std::string_view text) {
  log(LogLevel::kDebug, text);
}
inline void log_info(std::string_view text) {
  log(LogLevel::kInfo, text);
}
inline void log_warning(std::string_view text) {
  log(LogLevel::kWarning, text);
}
inline void log_error(std::string_view text) {
  log(LogLevel::kError, text);
}

}  // namespace larder::base
