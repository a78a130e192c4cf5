#include "operator/k8s/wall_time.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace larder::k8s {

// RFC 3339 with microseconds: the form of metav1.MicroTime, for example
// 2026-11-27T02:15:03.000042Z. Leases and Events need it.
std::string wall_time() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() %
      1'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s.%06dZ", date.data(), static_cast<int>(micros));
  return text.data();
}

}  // namespace larder::k8s
