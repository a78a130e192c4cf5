// Text that a shell reads, so that a flag can be put into it and be read as it was meant, through
// any number of quotings.
//
// A script may hand a part of itself to another reading: `eval "vllm serve $ARGS"`, `bash -c 'vllm
// serve m'`. What that second reading sees is a Text of its own, whose cells remember where in the
// first they came from, and inside which quotes.
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

// One character, or one expansion ($X, $(...), `...`) whose outcome nobody knows here.
struct Cell {
  char c = 0;
  bool unknown = false;
  Quotes quotes = Quotes::kNone;   // around it, in the text it came from
  std::size_t begin = 0, end = 0;  // where it came from: the cells [begin, end) of that text, a script's own: its bytes
};
using ShellText = std::vector<Cell>;

struct ShellWord {
  std::size_t begin = 0, end = 0;  // its cells in the text it stands in, quotes included
  ShellText meaning;               // what it means: without the quotes
  bool many = false;               // an expansion in it may make several words of it, or none
  bool array = false;              // NAME=(...): `meaning` ends with the `=`, `elements` are between the parentheses
  std::vector<ShellWord> elements;

  std::optional<std::string> literal() const;  // nothing where an expansion or an array decides
  std::string known() const;                   // its characters, expansions left out
};

// One simple command: its words without redirections. Assignments in front (A=1 vllm ...) are words
// too.
struct ShellCommand {
  std::vector<ShellWord> words;
  // The script runs it whenever it gets there: no `if`, loop, function, subshell, pipe or `&&` is
  // around it.
  bool certain = true;
  bool function = false;  // `name ()`: its one word is the name of a function
};

ShellText shell_text(std::string_view script);

// As one word that every POSIX shell reads back as `text`.
std::string shell_quoted(std::string_view text);
// `text` so that it stands for itself where these quotes are around it already; kNone: as
// shell_quoted.
std::string shell_encoded(std::string_view text, Quotes around);

}  // namespace larder::webhook
