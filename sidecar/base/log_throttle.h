// LogThrottle: log lines that others can cause over and over, bounded for each source.
//
// A source is a text: an address ("10.0.0.7"), a user ("uid 1000"), a process and a kind of line.
// The first line of a source is written at once. Lines that follow within a period are counted, and
// one line with the count follows when the period is over. The period begins with a second and
// doubles while the source goes on, up to a minute. A source that is quiet for two periods leaves
// the table. The table has kMostSources places; while they are taken, all further sources share one
// more, kOthers. Memory and lines are therefore bounded: a source that never stops writes a line a
// minute.
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
  static constexpr std::uint64_t kLeastMs = 1000, kMostMs = 60'000;
  static constexpr std::size_t kMostSources = 128;
  static constexpr std::size_t kMostSourceBytes = 128;  // a longer text counts by its first bytes
  static constexpr std::string_view kOthers = "others";

  // `clock` outlives it. `least_ms`: the first period of a source.
  explicit LogThrottle(const Clock& clock, std::uint64_t least_ms = kLeastMs)
      : clock_(clock), least_ms_(least_ms) {}
  ~LogThrottle();  // writes all counts
  LogThrottle(const LogThrottle&) = delete;
  LogThrottle& operator=(const LogThrottle&) = delete;

  void log(std::string_view source, LogLevel level, std::string_view text, LogFields fields = {});
  // Writes the counts that are due. log() does so too; a caller with a tick calls tell(), so that
  // no count waits for the next line.
  void tell();
  // Writes all counts, due or not, and forgets all sources.
  void tell_all();

  std::size_t sources() const;

 private:
  struct Source {
    std::uint64_t every_ms = 0;         // the period; 0 before the first line
    std::uint64_t next_ms = 0;          // when the next line may be written
    std::uint64_t left_out = 0;         // lines since the last written line
    LogLevel level = LogLevel::kDebug;  // the highest level of the lines left out
  };
  using Sources = std::map<std::string, Source, std::less<>>;

  void tell_due(std::uint64_t now_ms);
  // Starts the next period of a source that writes a line now.
  void next_period(Source& source, std::uint64_t now_ms) const;
  Source& source_of(std::string_view name);

  const Clock& clock_;
  const std::uint64_t least_ms_;
  std::atomic<std::uint64_t> due_ms_{
      UINT64_MAX};  // when the first source writes a count, or leaves
  mutable std::mutex mutex_;
  Sources sources_;
};

// log() and tell() of the throttle of this process.
void log_from(std::string_view source, LogLevel level, std::string_view text,
              LogFields fields = {});
void tell_left_out();

// Logs a refusal, or another failure that lasts until a person repairs the cause and returns with
// each retry. For each `who` and `cause` the log gets one line, then a count once a minute. Numbers
// in `cause` are ignored. REQUIRES: `cause` contains no name that an engine or client chose.
void log_refusal(std::string_view who, std::string_view cause, LogLevel level,
                 std::string_view text, LogFields fields = {});

// The cause as log_refusal() compares it: '#' for each number and each id in hex digits.
std::string without_numbers(std::string_view text);

// All counts, at the end of the process.
void tell_all_left_out();

}  // namespace larder::base
