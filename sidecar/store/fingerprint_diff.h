// The difference of two fingerprint texts ("field: value" lines), in words for a log line. Pure;
// thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace larder::store {

struct FingerprintDifference {
  std::size_t fields = 0;          // the number of different fields
  std::vector<std::string> names;  // the fields in `text`
  // "dtype: bfloat16 -> float16; weights: (none) -> 12ab"; bounded, the rest is counted
  std::string text;
};

FingerprintDifference diff_fingerprints(std::string_view known, std::string_view fresh);

}  // namespace larder::store
