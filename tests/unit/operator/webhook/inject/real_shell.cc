#include "tests/unit/operator/webhook/inject/real_shell.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace larder::test {
namespace {

using api::Object;
namespace fs = std::filesystem;

// Writes each word with its length, so that blanks and newlines in a word are visible.
constexpr const char* kFake = R"(#!/bin/sh
{ printf 'start %s %s\n' "$#" "${#PYTHONPATH}"; printf '%s\n' "$PYTHONPATH"
  for word in "$0" "$@"; do printf '%s\n' "${#word}"; printf '%s\n' "$word"; done; } >> "$LARDER_TEST_STARTS"
)";

// $(NAME) and $$ as the kubelet expands them in command and args.
std::string expanded(const std::string& text, const std::map<std::string, std::string>& variables) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '$' || at + 1 >= text.size()) {
      out += text[at];
    } else if (text[at + 1] == '$') {
      out += '$', ++at;
    } else if (const std::size_t end = text.find(')', at);
               text[at + 1] == '(' && end != std::string::npos) {
      const std::string name = text.substr(at + 2, end - at - 2);
      const auto found = variables.find(name);
      out += found == variables.end() ? text.substr(at, end + 1 - at) : found->second;
      at = end;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::map<std::string, std::string> environment_of(const Object& container,
                                                  const std::map<std::string, std::string>& image) {
  std::map<std::string, std::string> own;
  for (const Object& variable : api::at(container, "env"))
    if (api::at(variable, "valueFrom").is_null())
      own[api::text_at(variable, "name")] = expanded(api::text_at(variable, "value"), own);
  for (const auto& [name, value] : image) own.emplace(name, value);
  return own;
}

std::vector<EngineStart> read_starts(const fs::path& file) {
  std::vector<EngineStart> starts;
  std::ifstream in(file);
  std::string word;
  const auto take = [&in](std::size_t bytes) {
    std::string text(bytes, '\0');
    in.ignore();
    in.read(text.data(), static_cast<std::streamsize>(bytes));
    return text;
  };
  while (in >> word && word == "start") {
    std::size_t words = 0, bytes = 0;
    in >> words >> bytes;
    EngineStart start;
    start.python_path = take(bytes);
    for (std::size_t at = 0; at <= words && in >> bytes; ++at) start.argv.push_back(take(bytes));
    start.argv[0] = fs::path(start.argv[0]).filename();
    starts.push_back(start);
  }
  return starts;
}

}  // namespace

RealShell::RealShell() {
  std::string pattern = fs::temp_directory_path() / "larder-shell-XXXXXX";
  folder_ = ::mkdtemp(pattern.data());
  for (const char* name : {"vllm", "python3", "python"}) {
    std::ofstream(folder_ + "/" + name) << kFake;
    ::chmod((folder_ + "/" + name).c_str(), 0755);
  }
}

RealShell::~RealShell() {
  fs::remove_all(folder_);
}

std::vector<EngineStart> RealShell::run(const Object& container,
                                        const std::vector<std::string>& entrypoint,
                                        const std::map<std::string, std::string>& image) {
  const std::string starts = folder_ + "/starts";
  fs::remove(starts);
  auto variables = environment_of(container, image);
  std::vector<std::string> argv;
  for (const Object& word : api::at(container, "command"))
    argv.push_back(expanded(word.get<std::string>(), variables));
  if (argv.empty()) argv = entrypoint;
  for (const Object& word : api::at(container, "args"))
    argv.push_back(expanded(word.get<std::string>(), variables));
  variables["PATH"] = folder_ + ":/usr/bin:/bin";
  variables["LARDER_TEST_STARTS"] = starts;
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<std::string> environment;
    for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
    std::vector<char*> words, settings;
    for (std::string& word : argv) words.push_back(word.data());
    for (std::string& setting : environment) settings.push_back(setting.data());
    words.push_back(nullptr);
    settings.push_back(nullptr);
    ::setenv("PATH", variables["PATH"].c_str(), 1);
    if (::chdir(folder_.c_str()) == 0) ::execvpe(words[0], words.data(), settings.data());
    ::_exit(127);
  }
  ::waitpid(child, &status_, 0);
  return read_starts(starts);
}

}  // namespace larder::test
