#include "operator/webhook/inject/script_engines.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "operator/webhook/inject/command_head.h"
#include "operator/webhook/inject/shell_reader.h"
#include "operator/webhook/inject/shell_words.h"

namespace larder::webhook {
namespace {

// The name in NAME=, NAME+= and NAME[...]=; "": no assignment. `value`: index of the value in the
// word's meaning.
// Bash's forms: NAME=V, NAME+=V, NAME[I]=V, NAME[I]+=V. The index may hold an expansion.
std::string assigned_name(const ShellWord& word, std::size_t& value) {
  std::string name;
  bool inside = false;  // the brackets
  for (std::size_t at = 0; at < word.meaning.size(); ++at) {
    const Cell& cell = word.meaning[at];
    const bool named =
        !cell.unknown && (std::isalnum(static_cast<unsigned char>(cell.c)) != 0 || cell.c == '_');
    if (inside) {
      inside = cell.unknown || cell.c != ']';
    } else if (cell.unknown) {
      return "";
    } else if (cell.c == '=' && !name.empty()) {
      value = at + 1;
      return name;
    } else if (cell.c == '[' && !name.empty()) {
      inside = true;
    } else if (named && word.meaning[at == 0 ? 0 : at - 1].c != ']') {
      name += cell.c;
    } else if (cell.c != '+' || at + 1 >= word.meaning.size() || word.meaning[at + 1].c != '=') {
      return "";
    }
  }
  return "";
}

// The words of the value of NAME=VALUE for an unquoted $NAME.
// An unquoted $NAME is split at blanks: NAME="--a 1" gives two words.
std::vector<ShellWord> split_at_blanks(const ShellWord& word, std::size_t value) {
  std::vector<ShellWord> parts(1);
  for (std::size_t at = value; at < word.meaning.size(); ++at) {
    const Cell& cell = word.meaning[at];
    if (!cell.unknown && std::isspace(static_cast<unsigned char>(cell.c)) != 0) {
      if (!parts.back().meaning.empty()) parts.emplace_back();
      continue;
    }
    parts.back().meaning.push_back(cell);
    parts.back().many = parts.back().many || cell.unknown;
  }
  return parts;
}

// Removes the index of an element: NAME=([1]=--port) has the element --port.
ShellWord without_index(ShellWord element) {
  if (element.meaning.empty() || element.meaning[0].unknown || element.meaning[0].c != '[')
    return element;
  for (std::size_t at = 1; at + 1 < element.meaning.size(); ++at)
    if (element.meaning[at].c == ']' && element.meaning[at + 1].c == '=') {
      const auto first = element.meaning.begin();
      element.meaning.erase(first, first + static_cast<std::ptrdiff_t>(at) + 2);
      break;
    }
  return element;
}

// Removes values of assignments, which do not matter for the program that a command starts.
// "NAME=$" stands for an assignment with an unknown value, so head_of() still finds the program
// behind it.
std::vector<std::optional<std::string>> literals(const std::vector<ShellWord>& command) {
  std::vector<std::optional<std::string>> words;
  words.reserve(command.size());
  for (const ShellWord& word : command) {
    std::size_t value = 0;
    std::optional<std::string> text = word.literal();
    if (!text)
      if (const std::string name = assigned_name(word, value); !name.empty()) text = name + "=$";
    words.push_back(std::move(text));
  }
  return words;
}

}  // namespace

// The script itself is text 0, and its own parent.
Result<ScriptEngines> ScriptEngines::find(std::string_view script) {
  ScriptEngines found;
  if (script.size() > kMostShellText) return Status(Code::kOutOfRange, "the text is too long");
  found.texts_.push_back({shell_text(script), 0, false, ""});
  if (Status status = found.read(0, 1); !status.ok()) return status;
  return found;
}

Status ScriptEngines::read(std::size_t text, int depth) {
  const auto commands = read_shell(texts_[text].cells);
  if (!commands.ok()) return commands.status();
  for (const ShellCommand& command : *commands)
    if (Status status = read_command(text, command, depth); !status.ok()) return status;
  return {};
}

// Only commands of the script itself are certain: a text of an eval may depend on a condition
// outside.
Status ScriptEngines::read_command(std::size_t text, const ShellCommand& command, int depth) {
  const bool certain = command.certain && text == 0;
  commands_.push_back({{}, certain, command.function, texts_[text].evaluated});
  for (const ShellWord& word : command.words)
    commands_.back().words.push_back(script_word(text, word));
  // NAME=VALUE in front of a command applies only to the command.
  const std::string first = command.words.front().known();
  const bool alone = std::ranges::all_of(command.words, [](const ShellWord& word) {
    std::size_t value = 0;
    return !assigned_name(word, value).empty();
  });
  const bool declares = std::ranges::find(kDeclaring, first) != kDeclaring.end();
  for (const ShellWord& word : command.words)
    take_assignment(text, word, certain && (alone || declares));
  // Elements of an array may be an engine: NAME=(vllm serve m); "${NAME[@]}".
  for (const ShellWord& word : command.words) {
    std::size_t value = 0;
    if (!word.array) continue;
    if (Status status = read_words(text, word.elements, assigned_name(word, value), depth);
        !status.ok())
      return status;
  }
  return read_words(text, command.words, "", depth);
}

// The lost environment of an outer text counts inside, too: `env -i sh -c 'vllm serve m'`.
Status ScriptEngines::read_words(std::size_t text, const std::vector<ShellWord>& words,
                                 const std::string& array, int depth) {
  const auto argv = literals(words);
  const CommandHead head = head_of(argv);
  const std::string& outer = texts_[text].lost;
  const std::string lost = outer.empty() ? head.lost : outer;
  switch (head.kind) {
    case CommandHead::Kind::kEngine:
      engines_.push_back({text, commands_.size() - 1, words, head.program, head.index,
                          head.takes_model, array, lost});
      return {};
    case CommandHead::Kind::kEval:
      return read_again({{}, text, true, lost}, words, {head.index, words.size()}, depth);
    case CommandHead::Kind::kShell:
      return read_again({{}, text, false, lost}, words, {head.index, head.index + 1}, depth);
    default: return {};
  }
}

// Joins the words of the span with blanks, like eval.
Status ScriptEngines::read_again(Text text, const std::vector<ShellWord>& words, Span span,
                                 int depth) {
  // Both bounds: the depth, and the number of texts, since a script may have many evals side by
  // side.
  if (depth >= kMostReadings || texts_.size() >= kMostTexts)
    return {Code::kOutOfRange, "the text is nested too deeply"};
  for (std::size_t at = span.first; at < span.last; ++at) {
    const std::size_t begin = words[at].begin;
    // The blank between joined words belongs to no cell of the outer text: its origin is an empty
    // range.
    if (at > span.first) text.cells.push_back({' ', false, Quotes::kNone, begin, begin});
    text.cells.insert(text.cells.end(), words[at].meaning.begin(), words[at].meaning.end());
  }
  texts_.push_back(std::move(text));
  return read(texts_.size() - 1, depth + 1);
}

void ScriptEngines::take_assignment(std::size_t text, const ShellWord& word, bool certain) {
  std::size_t value = 0;
  Assignment one;
  one.name = assigned_name(word, value);
  if (one.name.empty()) return;
  one.command = commands_.size() - 1;
  one.array = word.array;
  one.adds = value != one.name.size() + 1;
  // A second reading may be conditional: an assignment in it replaces nothing for certain.
  one.replaces = certain && !one.adds;
  const std::vector<ShellWord> parts = word.array ? word.elements : split_at_blanks(word, value);
  for (const ShellWord& part : parts) {
    one.words.push_back(script_word(text, word.array ? without_index(part) : part));
    one.value += (one.value.empty() ? "" : " ") + one.words.back().known;
  }
  assignments_.push_back(std::move(one));
}

// `begins` is the text before the first expansion, e.g. "--kv-transfer-config=" of
// --kv-transfer-config=$X.
ScriptWord ScriptEngines::script_word(std::size_t text, const ShellWord& word) const {
  ScriptWord one{word.literal(), word.known(), "", {}, word.many};
  for (const Cell& cell : word.meaning) {
    if (cell.unknown)
      one.expansions.push_back(source_of(text, cell.begin, cell.end));
    else if (one.expansions.empty())
      one.begins += cell.c;
  }
  return one;
}

// The source of an expansion, from the first text with the complete expansion.
// An expansion inside an eval was read in an outer text, where its spelling stands.
std::string ScriptEngines::source_of(std::size_t text, std::size_t begin, std::size_t end) const {
  std::string source;
  for (std::size_t at = begin; at < end; ++at) {
    const Cell& cell = texts_[text].cells[at];
    source += cell.unknown ? source_of(texts_[text].parent, cell.begin, cell.end)
                           : std::string(1, cell.c);
  }
  return source;
}

std::vector<ScriptWord> ScriptEngines::words(std::size_t engine) const {
  const Engine& one = engines_[engine];
  std::vector<ScriptWord> words;
  for (std::size_t at = one.first_flag; at < one.command.size(); ++at)
    words.push_back(script_word(one.text, one.command[at]));
  return words;
}

std::vector<FlagWord> ScriptEngines::flags(std::size_t engine) const {
  const Engine& one = engines_[engine];
  std::vector<FlagWord> flags;
  for (std::size_t at = one.first_flag; at < one.command.size(); ++at)
    flags.push_back({one.command[at].literal(), one.command[at].many,
                     script_word(one.text, one.command[at]).begins});
  return flags;
}

// Each outer text around the place needs one more level of quotes: in `bash -c 'vllm serve m'` the
// JSON stands inside single quotes.
ScriptEdit ScriptEngines::put(std::size_t engine, std::size_t before,
                              const std::vector<std::string>& words) const {
  std::string text;
  for (const std::string& piece : words) text += (text.empty() ? "" : " ") + piece;
  return put_at(engines_[engine], engines_[engine].first_flag + before, std::move(text));
}

ScriptEdit ScriptEngines::put_in_front(std::size_t engine, const std::string& words) const {
  return put_at(engines_[engine], engines_[engine].program, words);
}

ScriptEdit ScriptEngines::put_at(const Engine& one, std::size_t word, std::string text) const {
  const bool at_end = word >= one.command.size();
  text = at_end ? " " + text : text + " ";
  // A place in a text is before or after a cell. In outer texts the place keeps its side, and so
  // stays inside the same quotes.
  std::size_t at = at_end ? one.command.back().end : one.command[word].begin;
  for (std::size_t in = one.text; in != 0; in = texts_[in].parent) {
    const Cell& cell = texts_[in].cells[at_end ? at - 1 : at];
    text = shell_encoded(text, cell.quotes);
    at = at_end ? cell.end : cell.begin;
  }
  return {at, at, text};
}

// A word that is quoted in pieces ("a"'b') has no single place in the outer text.
Result<ScriptEdit> ScriptEngines::replace(std::size_t engine, std::size_t word,
                                          const std::string& value) const {
  const Engine& one = engines_[engine];
  ScriptEdit edit{one.command[one.first_flag + word].begin, one.command[one.first_flag + word].end,
                  value};
  for (std::size_t in = one.text; in != 0; in = texts_[in].parent) {
    const ShellText& cells = texts_[in].cells;
    const Quotes quotes = cells[edit.begin].quotes;
    for (std::size_t at = edit.begin; at < edit.end; ++at)
      if (cells[at].quotes != quotes)
        return Status(Code::kUnsupported,
                      "--kv-transfer-config is quoted piece by piece; write the JSON inside one "
                      "pair of quotes");
    edit = {cells[edit.begin].begin, cells[edit.end - 1].end, shell_encoded(edit.text, quotes)};
  }
  return edit;
}

CommandHead head_with_engine_at(const std::vector<ScriptWord>& words, std::size_t at) {
  std::vector<std::optional<std::string>> argv;
  for (std::size_t word = 0; word < at; ++word) {
    const ScriptWord& one = words[word];
    const bool assigns = !one.text && is_assignment(one.begins + "$");
    argv.push_back(assigns ? std::optional(one.begins + "$") : one.text);
  }
  for (const char* word : {"vllm", "serve"}) argv.emplace_back(word);
  return head_of(argv);
}

std::string edited(std::string script, std::vector<ScriptEdit> edits) {
  std::ranges::sort(edits, std::greater<>(), &ScriptEdit::begin);
  for (const ScriptEdit& edit : edits) script.replace(edit.begin, edit.end - edit.begin, edit.text);
  return script;
}

}  // namespace larder::webhook
