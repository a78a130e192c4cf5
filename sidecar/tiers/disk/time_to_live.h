// TimeToLive: how long what was written may be found. Pure; thread-safe. A clock that was set back lets nothing live for ever: what
// was written in the future is as old as can be.
#pragma once

#include <cstdint>

namespace larder::disk {

struct TimeToLive {
  std::uint32_t limit_s = 0;  // 0: none
  // Clocks of machines differ a little.
  static constexpr std::uint32_t kSkewS = 300;

  bool expired(std::uint32_t written_s, std::uint32_t now_s) const {
    if (limit_s == 0) return false;
    if (written_s > now_s) return written_s - now_s > kSkewS;
    return now_s - written_s >= limit_s;
  }
};

}  // namespace larder::disk
