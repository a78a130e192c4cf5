#include "operator/webhook/inject/command_head.h"

#include <algorithm>
#include <array>

#include "operator/webhook/inject/lost_environment.h"
#include "operator/webhook/inject/shell_words.h"
#include "operator/webhook/inject/starters.h"

namespace larder::webhook {
namespace {

using Word = std::optional<std::string>;
using Words = std::span<const Word>;

constexpr std::array<std::string_view, 6> kShells{"sh", "bash", "dash", "ash", "zsh", "ksh"};
// Python modules that serve vLLM and take its flags.
constexpr std::array<std::string_view, 4> kModules{
    "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server",
    "vllm.entrypoints.launchers.api_server.entry", "huggingfaceserver"};

// A word without text is decided by an expansion and equals no known word.
bool is(Words argv, std::size_t at, std::string_view text) {
  return at < argv.size() && argv[at] && *argv[at] == text;
}

// `vllm bench` and `vllm chat` serve no requests and are no engines.
CommandHead served(Words argv, std::size_t after) {
  if (!is(argv, after, "serve")) return {};
  return {CommandHead::Kind::kEngine, after + 1, 0, true, ""};
}

CommandHead python_head(Words argv, std::size_t at) {
  // Options of python with a value (-X, -W) take the next word. Any other dash is an option without
  // one.
  for (++at; at < argv.size() && argv[at]; ++at) {
    const std::string& word = *argv[at];
    if (word == "-m" || word == "-c") {
      // The text behind -c is Python, which the injector does not read.
      if (word == "-c" || at + 1 >= argv.size() || !argv[at + 1]) return {};
      if (*argv[at + 1] == "vllm.entrypoints.cli.main") return served(argv, at + 2);
      if (one_of(*argv[at + 1], kModules))
        return {CommandHead::Kind::kEngine, at + 2, 0, false, ""};
      return {};
    }
    if (word == "-X" || word == "-W") {
      ++at;
      // `python /opt/venv/bin/vllm serve m`: the script is the program.
    } else if (!word.starts_with('-')) {
      return program_name(word) == "vllm" ? served(argv, at + 1) : CommandHead{};
    }
  }
  return {};
}

// bash -euo pipefail -c SCRIPT: options may stand on both sides of the c.
CommandHead shell_head(Words argv, std::size_t at) {
  bool reads_script = false;
  // Examples: `bash -c S`, `bash -lc S`, `bash -o pipefail -c S`, `sh -ec S`. In `bash run.sh` no
  // option reads a script, and the result is kNothing.
  for (++at; at < argv.size() && argv[at]; ++at) {
    const std::string& word = *argv[at];
    if (word.size() < 2 || (word[0] != '-' && word[0] != '+')) break;
    if (word == "--") {
      ++at;
      break;
    }
    if (word.starts_with("--")) continue;  // --login, --norc
    reads_script = reads_script || (word[0] == '-' && word.find('c') != std::string::npos);
    if (word.back() == 'o' || word.back() == 'O') ++at;  // -o pipefail
  }
  if (!reads_script || at >= argv.size()) return {};
  return {CommandHead::Kind::kShell, at, 0, false, ""};
}

// su - user -c SCRIPT
CommandHead other_users_head(Words argv, std::size_t at) {
  // -lc is -l and -c in one word.
  for (++at; at + 1 < argv.size(); ++at)
    if (is(argv, at, "-c") || is(argv, at, "-lc") || is(argv, at, "--command"))
      return {CommandHead::Kind::kShell, at + 1, 0, false, ""};
  return {};
}

// A program that is not known gives kNothing. The injector then leaves the pod alone (or reads the
// args of an entrypoint).
CommandHead plain_head(Words argv, std::size_t at) {
  if (at >= argv.size() || !argv[at]) return {};
  const std::string_view name = program_name(*argv[at]);
  if (name == "vllm") return served(argv, at + 1);
  if (is_python(name)) return python_head(argv, at);
  if (one_of(name, kShells)) return shell_head(argv, at);
  if (name == "eval") return {CommandHead::Kind::kEval, at + 1, 0, false, ""};
  return {};
}

}  // namespace

std::string_view program_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_python(std::string_view name) {
  return name.starts_with("python") &&
         name.find_first_not_of("0123456789.", 6) == std::string_view::npos;
}

// NAME=VALUE in front of a shell's command: "A=1", "A+=1" and "A[0]=1". A word such as "--port=80"
// has a dash in front of its equals sign and is none.
bool is_assignment(const Word& word) {
  if (!word) return false;
  const std::size_t equals = word->find('=');
  return equals != std::string::npos && equals > 0 &&
         word->find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+[]") == equals;
}

// `timeout 30m vllm serve`: a known starter is skipped with its own words (starters.h). An unknown
// program ends the search, since it may drop the container's files or variables.
CommandHead head_of(Words argv) {
  std::size_t at = 0;
  while (at < argv.size() && is_assignment(argv[at])) ++at;
  const auto knows = [](Words words, std::size_t place) {
    return is_starter(*words[place]) ||
           plain_head(words, place).kind != CommandHead::Kind::kNothing;
  };
  CommandHead head;
  while (at < argv.size() && argv[at]) {
    const std::string_view name = program_name(*argv[at]);
    head = name == "su" || name == "runuser" ? other_users_head(argv, at) : plain_head(argv, at);
    if (head.kind != CommandHead::Kind::kNothing || !is_starter(name)) break;
    at = started_by(argv, at, knows);
  }
  head.program = at;
  if (head.kind != CommandHead::Kind::kNothing)
    // Only the words in front of the engine may remove variables: the words behind it are vLLM's
    // own flags.
    head.lost = environment_lost(argv.first(head.index));
  return head;
}

}  // namespace larder::webhook
