// The form of a test: the short one, as in `make test`, or the long one, as in `make test-remote`
// and `make test-long`.
#pragma once

#include <cstdlib>
#include <string_view>

namespace larder::test {

inline bool long_form() {
  const char* const suite = std::getenv("REMOTE_SUITE");
  return suite != nullptr && std::string_view(suite) == "whole";
}

// A number of things, or seconds.
template <typename Number>
Number by_form(Number short_one, Number long_one) {
  return long_form() ? long_one : short_one;
}

}  // namespace larder::test
