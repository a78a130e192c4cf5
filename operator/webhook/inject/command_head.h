// The program that an argv starts: an engine, a shell with a script, `eval`, or an unknown one.
//
// Looks through programs that start another one: env, exec, tini, numactl, timeout and the like.
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
  bool takes_model = false;  // kEngine by `vllm serve`: the first word after it is the model
  // A program in front that removes variables or groups of the container, such as "env -i" and
  // "sudo"; "": none.
  std::string lost;
};

// A word is empty if only a shell's expansion decides its text.
CommandHead head_of(std::span<const std::optional<std::string>> argv);

// "python", "python3.12".
bool is_python(std::string_view name);

// Whether the word is a program that starts the program named after its options.
bool is_starter(std::string_view word);

// "/opt/venv/bin/vllm" -> "vllm".
std::string_view program_name(std::string_view path);

}  // namespace larder::webhook
