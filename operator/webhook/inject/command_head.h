// What an argv starts: an engine, a shell that reads a script, `eval`, or nothing that is known.
//
// Programs in front that start another are looked through: env, exec, tini, numactl, timeout and
// the like. Pure; thread-safe; never throws.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace larder::webhook {

struct CommandHead {
  enum class Kind { kNothing, kEngine, kShell, kEval } kind = Kind::kNothing;
  // kEngine: the first word after `vllm serve` or `python -m MODULE`; kShell: the script; kEval:
  // the first word it reads. It may be one past the last word.
  std::size_t index = 0;
  bool takes_model = false;  // kEngine by `vllm serve`: the first word after it is the model
  // What in front takes away the environment or the groups that the container has, as "env -i" and
  // "sudo"; "" where all of them stay.
  std::string lost;
};

// A word is nothing where only a shell's expansion will tell it.
CommandHead head_of(std::span<const std::optional<std::string>> argv);

// "python", "python3.12".
bool is_python(std::string_view name);

// Whether the word is a program that starts what is named after its own options.
bool is_starter(std::string_view word);

// "/opt/venv/bin/vllm" -> "vllm".
std::string_view program_name(std::string_view path);

}  // namespace larder::webhook
