#include "operator/webhook/inject/script_engines.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "operator/webhook/inject/command_head.h"
#include "operator/webhook/inject/shell_reader.h"

namespace larder::webhook {
namespace {

std::vector<std::optional<std::string>> literals(const ShellCommand& command) {
  std::vector<std::optional<std::string>> words;
  words.reserve(command.size());
  for (const ShellWord& word : command) words.push_back(word.literal());
  return words;
}

// Nothing where the word is no NAME=VALUE and no NAME+=VALUE.
std::optional<Assignment> assignment_of(const ShellWord& word) {
  std::string text;
  for (const Cell& cell : word.meaning)
    if (!cell.unknown) text += cell.c;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  std::string name = text.substr(0, equals - (text[equals - 1] == '+' ? 1 : 0));
  const bool named = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (name.empty() || !named) return std::nullopt;
  return Assignment{std::move(name), text.substr(equals + 1)};
}

}  // namespace

Result<ScriptEngines> ScriptEngines::find(std::string_view script) {
  ScriptEngines found;
  if (script.size() > kMostShellText) return Status(Code::kOutOfRange, "it is longer than can be read");
  found.texts_.push_back({shell_text(script), 0});
  if (Status status = found.read(0, 1); !status.ok()) return status;
  return found;
}

Status ScriptEngines::read(std::size_t text, int depth) {
  const auto commands = read_shell(texts_[text].cells);
  if (!commands.ok()) return commands.status();
  for (const ShellCommand& command : *commands) {
    for (const ShellWord& word : command)
      if (auto assignment = assignment_of(word)) assignments_.push_back(std::move(*assignment));
    const CommandHead head = head_of(literals(command));
    Status status;
    if (head.kind == CommandHead::Kind::kEngine)
      engines_.push_back({text, command, head.index});
    else if (head.kind == CommandHead::Kind::kEval)
      status = read_again(text, command, head.index, command.size(), depth);
    else if (head.kind == CommandHead::Kind::kShell)
      status = read_again(text, command, head.index, head.index + 1, depth);
    if (!status.ok()) return status;
  }
  return {};
}

// The words [first, last) with blanks between them, as eval joins them.
Status ScriptEngines::read_again(std::size_t from, const ShellCommand& command, std::size_t first, std::size_t last, int depth) {
  if (depth >= kMostReadings || texts_.size() >= kMostTexts) return {Code::kOutOfRange, "it is nested deeper than can be read"};
  Text text{{}, from};
  for (std::size_t at = first; at < last; ++at) {
    const std::size_t begin = command[at].begin;
    if (at > first) text.cells.push_back({' ', false, Quotes::kNone, begin, begin});
    text.cells.insert(text.cells.end(), command[at].meaning.begin(), command[at].meaning.end());
  }
  texts_.push_back(std::move(text));
  return read(texts_.size() - 1, depth + 1);
}

std::vector<FlagWord> ScriptEngines::flags(std::size_t engine) const {
  const Engine& one = engines_[engine];
  std::vector<FlagWord> flags;
  for (std::size_t at = one.first_flag; at < one.command.size(); ++at)
    flags.push_back({one.command[at].literal(), one.command[at].many});
  return flags;
}

ScriptEdit ScriptEngines::put(std::size_t engine, std::size_t before, const std::vector<std::string>& words) const {
  const Engine& one = engines_[engine];
  const std::size_t word = one.first_flag + before;
  const bool at_end = word >= one.command.size();
  std::string text;
  for (const std::string& piece : words) text += (text.empty() ? "" : " ") + piece;
  text = at_end ? " " + text : text + " ";
  // A place in a text lies after one of its cells or before one; outwards it keeps its side, so that it stays inside the same quotes.
  std::size_t at = at_end ? one.command.back().end : one.command[word].begin;
  for (std::size_t in = one.text; in != 0; in = texts_[in].parent) {
    const Cell& cell = texts_[in].cells[at_end ? at - 1 : at];
    text = shell_encoded(text, cell.quotes);
    at = at_end ? cell.end : cell.begin;
  }
  return {at, at, text};
}

Result<ScriptEdit> ScriptEngines::replace(std::size_t engine, std::size_t word, const std::string& value) const {
  const Engine& one = engines_[engine];
  ScriptEdit edit{one.command[one.first_flag + word].begin, one.command[one.first_flag + word].end, value};
  for (std::size_t in = one.text; in != 0; in = texts_[in].parent) {
    const ShellText& cells = texts_[in].cells;
    const Quotes quotes = cells[edit.begin].quotes;
    for (std::size_t at = edit.begin; at < edit.end; ++at)
      if (cells[at].quotes != quotes)
        return Status(Code::kUnsupported,
                      "its --kv-transfer-config is quoted piece by piece; write its JSON inside one pair of quotes");
    edit = {cells[edit.begin].begin, cells[edit.end - 1].end, shell_encoded(edit.text, quotes)};
  }
  return edit;
}

std::string edited(std::string script, std::vector<ScriptEdit> edits) {
  std::ranges::sort(edits, std::greater<>(), &ScriptEdit::begin);
  for (const ScriptEdit& edit : edits) script.replace(edit.begin, edit.end - edit.begin, edit.text);
  return script;
}

}  // namespace larder::webhook
