// Parses options before, between and behind the other words of a command line. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "shim/base/status.h"

namespace larder::ctl {

// `read_option(words, arguments)` reads the option at words[0], with a value in the same or the
// next word, and returns the number of words. Other words join `arguments.words`. Errors of
// `read_option` are returned.
template <typename Arguments, typename ReadOption>
Result<Arguments> parse_options_anywhere(std::span<const std::string_view> words, const ReadOption& read_option) {
  Arguments arguments;
  while (!words.empty()) {
    std::size_t taken = 1;
    if (words[0].starts_with("-")) {
      const Result<std::size_t> option = read_option(words, arguments);
      if (!option.ok()) return option.status();
      taken = *option;
    } else {
      arguments.words.emplace_back(words[0]);
    }
    words = words.subspan(taken);
  }
  return arguments;
}

}  // namespace larder::ctl
