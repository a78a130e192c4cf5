// Splits shell text into simple commands like sh and bash: quotes, comments, here-documents,
// redirections, compound commands.
//
// Reads only enough to find the words of commands: `if x; then vllm serve m; fi` gives the commands
// `x` and `vllm serve m`. Skips the content of $(...) and `...`. Pure; thread-safe; never throws.
#pragma once

#include "operator/webhook/inject/shell_text.h"
#include "shim/base/status.h"

namespace larder::webhook {

inline constexpr std::size_t kMostShellText = 256u << 10;  // cells
inline constexpr int kMostShellNesting = 64;               // of quotes and parentheses

// kInvalidArgument: text that no shell can read (an open quote). kOutOfRange: longer or deeper than
// the bounds.
Result<std::vector<ShellCommand>> read_shell(const ShellText& text);

}  // namespace larder::webhook
