#include "sidecar/base/command_line.h"

namespace larder::base {

// With `letters`, "-n4" and "-n=4" both give "-n" and "4", as getopt() users type them. A long word
// is split at its first '=' only: "--label=a=b" has the value "a=b".
SplitWord split_word(std::string_view word, bool letters) {
  // A single letter without a value ("-n") is too short to split.
  if (!letters || word.starts_with("--") || word.size() <= 2) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return {word, {}};
    return {word.substr(0, equals), word.substr(equals + 1)};
  }
  const std::string_view value = word.substr(2);
  return {word.substr(0, 2), value.starts_with("=") ? value.substr(1) : value};
}

Status wrong_word(std::string_view word, std::string_view why) {
  return {Code::kInvalidArgument, "'" + std::string(word) + "' " + std::string(why)};
}

}  // namespace larder::base
