// The command line of a program: a table of options, each as `--name value` or `--name=value`.
// Pure; thread-safe.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::base {

template <class A>
struct Option {
  std::string_view name;
  std::string_view takes;  // describes the value, for errors and help; empty: a flag
  // Stores the value. `name`: that of the table. `value`: empty for a flag.
  // False: the value is bad.
  bool (*set)(A& arguments, std::string_view name, std::string_view value);
  std::string_view help = {};  // for the help text of the program
};

// Setters of a row: `set_flag<&Arguments::json>`, and `set_text<&Arguments::socket>` for a text
// that must not be empty.
template <auto kField, class A>
bool set_flag(A& arguments, std::string_view, std::string_view) {
  return arguments.*kField = true;
}
template <auto kField, class A>
bool set_text(A& arguments, std::string_view, std::string_view text) {
  arguments.*kField = text;
  return !text.empty();
}

template <class A>
struct Grammar {
  std::string_view unknown;    // the end of "'--x' is no option of larderctl"
  std::string_view hint = {};  // the end of "'--config' needs a file (see larderd --help)"
  // Words that are no options; null: such a word is unknown.
  std::vector<std::string> A::*operands = nullptr;
  std::vector<std::string> A::*rest = nullptr;  // words behind `--`; null: `--` is unknown
  bool letters = false;                         // a value may follow a letter: "-njobs", "-n=jobs"
  bool option_is_no_value = false;              // a next word that begins with `--` is no value
  bool empty_is_missing = false;                // an empty value is a missing value
  bool quotes_word = false;                     // errors quote the whole word, and a bad value
};

struct SplitWord {
  std::string_view name;
  std::optional<std::string_view> value;  // "x" of "--name=x"; none: "--name"
};
SplitWord split_word(std::string_view word, bool letters);

// "'WORD' WHY"
Status wrong_word(std::string_view word, std::string_view why);

// Options may stand anywhere, and the last one counts. Two rows may have one name: a flag for the
// name alone, then an option for the name with a value. An error is a sentence that begins with the
// wrong word.
template <class A>
Result<A> parse_command_line(std::span<const Option<A>> options, const Grammar<A>& grammar,
                             std::span<const std::string_view> words, A arguments = {}) {
  for (std::size_t taken = 1; !words.empty(); words = words.subspan(taken), taken = 1) {
    const std::string_view word = words[0];
    if (grammar.rest != nullptr && word == "--") {
      (arguments.*grammar.rest).assign(words.begin() + 1, words.end());
      break;
    }
    if (grammar.operands != nullptr && !word.starts_with("-")) {
      (arguments.*grammar.operands).emplace_back(word);
      continue;
    }
    SplitWord split = split_word(word, grammar.letters);
    const auto option = std::ranges::find_if(options, [&split](const Option<A>& one) {
      return one.name == split.name && !(one.takes.empty() && split.value);
    });
    if (option == options.end()) return wrong_word(word, grammar.unknown);
    if (!option->takes.empty() && !split.value && words.size() > 1 &&
        !(grammar.option_is_no_value && words[1].starts_with("--"))) {
      split.value = words[1];
      taken = 2;
    }
    const std::string_view named = grammar.quotes_word ? word : option->name;
    const std::string needs = "needs " + std::string(option->takes) + std::string(grammar.hint);
    const bool is_missing = !split.value || (grammar.empty_is_missing && split.value->empty());
    if (!option->takes.empty() && is_missing) return wrong_word(named, needs);
    if (option->set(arguments, option->name, split.value.value_or(""))) continue;
    if (!grammar.quotes_word) return wrong_word(named, needs);
    return wrong_word(
        named, "takes " + std::string(option->takes) + ", not '" + std::string(*split.value) + "'");
  }
  return arguments;
}

}  // namespace larder::base
