// The log: one line a record on standard error, "2026-11-21T09:33:57.123Z level text key=value", or
// the same as a JSON object.
//
// Thread-safe; a line is one write. `text` and fields must hold no secret. Control characters are
// replaced or escaped, so a text from an engine or client cannot forge a line or command a
// terminal.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace larder::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };  // kJson: {"ts", "level", "msg"} and the fields beside them

// The subject of a record, under names that the caller chooses: {{"namespace", ns}, {"name",
// name}}.
using LogFields = std::initializer_list<std::pair<std::string_view, std::string_view>>;

void set_log_level(LogLevel least);
void set_log_format(LogFormat format);
bool logs(LogLevel level);  // whether lines of that level are written
void log(LogLevel level, std::string_view text, LogFields fields = {});

// The line that log() writes, without its end. Pure; `time` as in RFC 3339.
std::string log_line(LogFormat format, std::string_view time, LogLevel level, std::string_view text,
                     LogFields fields);

inline void log_debug(std::string_view text, LogFields fields = {}) {
  log(LogLevel::kDebug, text, fields);
}
inline void log_info(std::string_view text, LogFields fields = {}) {
  log(LogLevel::kInfo, text, fields);
}
inline void log_warning(std::string_view text, LogFields fields = {}) {
  log(LogLevel::kWarning, text, fields);
}
inline void log_error(std::string_view text, LogFields fields = {}) {
  log(LogLevel::kError, text, fields);
}

}  // namespace larder::base
