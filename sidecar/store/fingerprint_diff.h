// How two fingerprint texts ("field: value" lines) differ, in words for a log line. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace larder::store {

struct FingerprintDifference {
  std::size_t fields = 0;          // lines that are not the same on both sides
  std::vector<std::string> names;  // of the first of them, as many as `text` has
  std::string text;                // "dtype: bfloat16 -> float16; weights: (none) -> 12ab"; bounded, the rest is counted
};

FingerprintDifference diff_fingerprints(std::string_view known, std::string_view fresh);

}  // namespace larder::store
