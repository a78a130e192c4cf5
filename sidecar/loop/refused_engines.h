// RefusedEngines: why engines are refused, for the status. An engine that is refused tries again within a minute (shim/client/retry.h):
// a reason that no engine has met for longer than that is over.
//
// Bounded: of more reasons than kMost the one that was met longest ago is left out. Owned by the event loop's thread.
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

  // `why` names what was refused and the setting that would help. Texts that differ in numbers alone are one reason, told as it was last.
  void note(const std::string& why, std::uint64_t now_ms);
  // A fallback "engines" for each reason in force, the last one first.
  void fill(stats::Stats& view, std::uint64_t now_ms);

 private:
  struct Reason {
    std::string cause;  // `why` without its numbers
    std::string why;
    std::uint64_t times, last_ms;
  };
  std::vector<Reason> reasons_;  // the one met last comes first
};

}  // namespace larder::loop
