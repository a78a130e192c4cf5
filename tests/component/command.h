// A command line, run by a shell like a user's: the exit status and the output.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace larder::test {

struct Outcome {
  int status;
  std::string text;  // of both streams
};

// In an environment without any LARDER_ variable except `variables` ("NAME=value NAME=value").
inline Outcome run(const std::string& command, const std::string& variables = "") {
  Outcome outcome{-1, ""};
  FILE* pipe = ::popen(("env -i " + variables + " timeout 60 " + command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), got);
  outcome.status = WEXITSTATUS(::pclose(pipe));
  return outcome;
}

}  // namespace larder::test
