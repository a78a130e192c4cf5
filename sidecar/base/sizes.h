// Sizes as people read them in messages and logs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace larder::base {

// "12 MiB", and "12.3 MiB" where it is not whole.
inline std::string mib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), bytes % (1 << 20) == 0 ? "%.0f MiB" : "%.1f MiB",
                static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace larder::base
