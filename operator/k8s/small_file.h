// A small text file, whole. Thread-safe.
#pragma once

#include <string>

#include "shim/base/status.h"

namespace larder::k8s {

inline constexpr std::size_t kMostFileBytes = 1u << 20;

// kOutOfRange: more than kMostFileBytes. Errors name the file.
Result<std::string> read_small_file(const std::string& file);

}  // namespace larder::k8s
