// Text that a shell reads. An inserted flag keeps its meaning through any number of quotings.
//
// A script may pass a part of its text to a second reading: `eval "vllm serve $ARGS"`, `bash -c
// 'vllm serve m'`. The second reading has its own ShellText, whose cells record their origin and
// quotes in the first text.
//
// Plain values; pure; thread-compatible; never throws.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace larder::webhook {

enum class Quotes : unsigned char { kNone, kSingle, kDouble };

// One character, or one expansion ($X, $(...), `...`) with an unknown result.
struct Cell {
  char c = 0;
  bool unknown = false;
  Quotes quotes = Quotes::kNone;   // around the cell in the original text
  std::size_t begin = 0, end = 0;  // origin: cells of the original text, or bytes of a script
};
using ShellText = std::vector<Cell>;

struct ShellWord {
  std::size_t begin = 0, end = 0;  // cells of the word in its text, with quotes
  ShellText meaning;               // the word without quotes
  bool many = false;               // an expansion may give several words or none
  bool array = false;              // NAME=(...): `meaning` ends with `=`; `elements` has the values
  std::vector<ShellWord> elements;

  std::optional<std::string> literal() const;  // empty if an expansion or an array decides
  std::string known() const;                   // characters without expansions
};

// One simple command: words without redirections. Leading assignments (A=1 vllm ...) are words.
struct ShellCommand {
  std::vector<ShellWord> words;
  // The script certainly runs the command: no `if`, loop, function, subshell, pipe or `&&` is
  // around it.
  bool certain = true;
  bool function = false;  // `name ()`: the one word is the name of a function
};

ShellText shell_text(std::string_view script);

// A script without the lines that are comments.
std::string without_comment_lines(std::string_view script);

// In lower case (of ASCII).
std::string lower(std::string_view text);

// One word that every POSIX shell reads back as `text`.
std::string shell_quoted(std::string_view text);
// `text` escaped for a place inside these quotes; kNone: as shell_quoted().
std::string shell_encoded(std::string_view text, Quotes around);

}  // namespace larder::webhook
