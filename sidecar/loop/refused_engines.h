// RefusedEngines: the reasons why engines are refused, for the status. A refused engine tries again
// within a minute (shim/client/retry.h), so a reason that no engine met for longer is over.
//
// Bounded: beyond kMost reasons the oldest reason is left out. Owned by the thread of the event
// loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sidecar/stats/stats.h"

namespace larder::loop {

class RefusedEngines {
 public:
  static constexpr std::uint64_t kInForceMs = 150'000;
  static constexpr std::size_t kMost = 4;
  static constexpr std::size_t kMostTextBytes = 400;

  // `why` names the refused request and the setting that would help. Texts that differ only in
  // numbers are one reason; the last text is shown.
  void note(const std::string& why, std::uint64_t now_ms);
  // Adds a fallback "engines" with its count for each reason in force, the newest first.
  void fill(stats::Stats& view, std::uint64_t now_ms);

 private:
  struct Reason {
    std::string cause;  // `why` without its numbers
    std::string why;
    std::uint64_t times, last_ms;
  };
  std::vector<Reason> reasons_;  // newest first
};

}  // namespace larder::loop
