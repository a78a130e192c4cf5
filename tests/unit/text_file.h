// Golden files, pages and sources, as tests read them. Thread-safe.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace larder::test {

// The whole file; "" where there is none.
inline std::string text_of(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace larder::test
