// LogThrottle: log lines that a stranger can cause, at most one a second for each source.
//
// A source is a text: an address ("10.0.0.7"), a user ("uid 1000"), a process and a kind of line. The
// first line of a source is written at once. Later lines within a second are counted, and one line
// with the count follows when that second is over. A quiet source leaves the table after a second. The
// table has kMostSources places; while they are taken, all further sources share one more, kOthers.
// Memory and lines are therefore bounded.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "sidecar/base/clock.h"
#include "sidecar/base/log.h"

namespace larder::base {

class LogThrottle {
 public:
  static constexpr std::uint64_t kEveryMs = 1000;
  static constexpr std::size_t kMostSources = 128;
  static constexpr std::size_t kMostSourceBytes = 128;  // of a longer text the beginning counts
  static constexpr std::string_view kOthers = "others";

  // `clock` outlives it.
  explicit LogThrottle(const Clock& clock) : clock_(clock) {}
  ~LogThrottle();  // writes all counts
  LogThrottle(const LogThrottle&) = delete;
  LogThrottle& operator=(const LogThrottle&) = delete;

  void log(std::string_view source, LogLevel level, std::string_view text, LogFields fields = {});
  // Writes the counts that are due. log() does so too; a caller with a tick calls tell(), so that no
  // count waits for the next line.
  void tell();

  std::size_t sources() const;

 private:
  struct Source {
    std::uint64_t next_ms = 0;          // when its next line may come
    std::uint64_t left_out = 0;         // lines since its last one
    LogLevel level = LogLevel::kDebug;  // the highest of these
  };
  using Sources = std::map<std::string, Source, std::less<>>;

  void tell_due(std::uint64_t now_ms);
  Source& source_of(std::string_view name);

  const Clock& clock_;
  std::atomic<std::uint64_t> due_ms_{UINT64_MAX};  // the earliest next_ms of all sources
  mutable std::mutex mutex_;
  Sources sources_;
};

// log() and tell() of the one throttle of this process.
void log_from(std::string_view source, LogLevel level, std::string_view text, LogFields fields = {});
void tell_left_out();

}  // namespace larder::base
