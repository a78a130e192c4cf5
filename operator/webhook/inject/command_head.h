// What an argv starts: an engine, a shell that reads a script, `eval`, or nothing that is known.
//
// Programs in front that start another are looked through: env, exec, tini, numactl and the like. Pure; thread-safe; never throws.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace larder::webhook {

struct CommandHead {
  enum class Kind { kNothing, kEngine, kShell, kEval } kind = Kind::kNothing;
  // kEngine: the first word after `vllm serve` or `python -m MODULE`; kShell: the script; kEval: the first word it reads.
  // It may be one past the last word.
  std::size_t index = 0;
};

// A word is nothing where only a shell's expansion will tell it.
CommandHead head_of(std::span<const std::optional<std::string>> argv);

// "/opt/venv/bin/vllm" -> "vllm".
std::string_view program_name(std::string_view path);

}  // namespace larder::webhook
