#include "sidecar/base/command_line.h"

namespace larder::base {

SplitWord split_word(std::string_view word, bool letters) {
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
