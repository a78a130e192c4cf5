// The lines of larderctl's screens and reports. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "sidecar/base/text.h"

namespace larder::ctl {

inline constexpr int kBarWidth = 30;

inline std::string line(std::string_view name, const std::string& value) {
  return "  " + base::column(name, 16) + value + "\n";
}

}  // namespace larder::ctl
