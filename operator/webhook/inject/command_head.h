// The program that an argv starts: an engine, a shell with a script, `eval`, or an unknown one.
//
// Looks through known programs that start another one (starters.h). A program that is not known may
// hide the container's files or variables, so a command behind it is none of vLLM.
// Pure; thread-safe; never throws.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace larder::webhook {

struct CommandHead {
  enum class Kind { kNothing, kEngine, kShell, kEval } kind = Kind::kNothing;
  // kEngine: the first word after `vllm serve` or `python -m MODULE`. kShell: the script. kEval:
  // the first word that eval reads. May be one past the last word.
  std::size_t index = 0;
  std::size_t program = 0;   // kEngine: the word `vllm` or `python`
  bool takes_model = false;  // kEngine by `vllm serve`: the first word after it is the model
  // A program in front that removes variables or groups of the container, such as "env -i" and
  // "sudo"; "": none.
  std::string lost;
};

// A word is empty if only a shell's expansion decides its text.
CommandHead head_of(std::span<const std::optional<std::string>> argv);

// "python", "python3.12".
bool is_python(std::string_view name);

// NAME=VALUE in front of a shell's command or behind `env`.
bool is_assignment(const std::optional<std::string>& word);

// "/opt/venv/bin/vllm" -> "vllm".
std::string_view program_name(std::string_view path);

}  // namespace larder::webhook
