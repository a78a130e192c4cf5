// The last line of the fingerprint of a namespace of recurrent states, or of tails. The rest of the
// text is the fingerprint of the namespace with the KV of tokens, so larderd finds the one by the
// other.
#pragma once

#include <string_view>

namespace larder::protocol {

inline constexpr std::string_view kStatesLine = "chunks: states\n";
inline constexpr std::string_view kTailsLine = "chunks: tails\n";

// Whether the namespace with this fingerprint has whole chunks of tokens. Requests report these
// chunks alone, and neither states nor tails.
constexpr bool is_of_whole_chunks(std::string_view fingerprint) {
  return !fingerprint.ends_with(kStatesLine) && !fingerprint.ends_with(kTailsLine);
}

}  // namespace larder::protocol
