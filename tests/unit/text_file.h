// Golden files, pages and sources for tests. Thread-safe.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace larder::test {

// The whole file; "" for a missing file.
inline std::string text_of(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace larder::test
