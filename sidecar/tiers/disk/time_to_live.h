// TimeToLive: how long a record may be found, counted from the time that its put named (the store
// of the chunk). Pure; thread-safe. A record from the future counts as expired: with a clock that
// was set back no record lives for ever.
#pragma once

#include <cstdint>

namespace larder::disk {

struct TimeToLive {
  std::uint32_t limit_s = 0;  // 0: no limit
  // The clocks of machines differ a little.
  static constexpr std::uint32_t kSkewS = 300;

  bool expired(std::uint32_t written_s, std::uint32_t now_s) const {
    if (limit_s == 0) return false;
    if (written_s > now_s) return written_s - now_s > kSkewS;
    return now_s - written_s >= limit_s;
  }
};

}  // namespace larder::disk
