#include "operator/webhook/inject/compound_commands.h"

#include <array>

namespace larder::webhook {
namespace {

struct Compound {
  std::string_view opens, closes;
  char mark;
};
// The mark in open_ is one letter for each open compound command. `done` closes while, until, for
// and select, which share the letter l.
constexpr std::array<Compound, 7> kCompounds{{{"if", "fi", 'i'},
                                              {"while", "done", 'l'},
                                              {"until", "", 'l'},
                                              {"for", "", 'l'},
                                              {"select", "", 'l'},
                                              {"case", "esac", 'c'},
                                              {"{", "}", '{'}}};

}  // namespace

void CompoundCommands::take_word(std::string_view word) {
  for (const auto& [opens, closes, mark] : kCompounds) {
    if (word == opens) open_ += mark;
    // rfind: an unbalanced script closes the innermost command of that kind and everything inside.
    if (word == closes && open_.rfind(mark) != std::string::npos) open_.resize(open_.rfind(mark));
  }
}

// The ) of a pattern in `case` closes no (.
void CompoundCommands::take_operator(char c, bool twice) {
  if (c == '(') open_ += '(';
  if (c == ')' && open_.ends_with('(')) open_.pop_back();
  // && and || make the next command conditional; a pipe runs it in a subshell, where assignments
  // are lost.
  if (c != '(' && c != ')') joined_ = twice || c == '|';
}

}  // namespace larder::webhook
