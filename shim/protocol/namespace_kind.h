// The last line of the fingerprint of a namespace of recurrent states. The rest of the text is the
// fingerprint of the namespace with the KV of tokens, so larderd finds the one by the other.
#pragma once

#include <string_view>

namespace larder::protocol {

inline constexpr std::string_view kStatesLine = "chunks: states\n";

// Whether the namespace with this fingerprint has states.
constexpr bool is_of_states(std::string_view fingerprint) {
  return fingerprint.ends_with(kStatesLine);
}

}  // namespace larder::protocol
