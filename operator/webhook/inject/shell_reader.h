// Reads shell text into its simple commands, as sh and bash do: quotes, comments, here-documents, redirections, compound commands.
//
// Only as much as is needed to find where a command's words stand: `if x; then vllm serve m; fi` gives the commands `x` and
// `vllm serve m`. What stands inside $(...) and `...` is not read. Pure; thread-safe; never throws.
#pragma once

#include "operator/webhook/inject/shell_text.h"
#include "shim/base/status.h"

namespace larder::webhook {

inline constexpr std::size_t kMostShellText = 256u << 10;  // cells
inline constexpr int kMostShellNesting = 64;               // of quotes and parentheses in one another

// kInvalidArgument where no shell could read it (a quote that is not closed), kOutOfRange where it is longer or deeper than that.
Result<std::vector<ShellCommand>> read_shell(const ShellText& text);

}  // namespace larder::webhook
