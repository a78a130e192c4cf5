// The age of a record. Thread-safe.
#pragma once

#include <cstdint>
#include <ctime>

namespace larder::remote {

inline std::uint32_t unix_s() {
  return static_cast<std::uint32_t>(::time(nullptr));
}

inline std::uint64_t age_ms_of(std::uint32_t since_s) {
  const std::uint32_t now_s = unix_s();
  return since_s < now_s ? std::uint64_t{now_s - since_s} * 1000 : 0;
}

}  // namespace larder::remote
