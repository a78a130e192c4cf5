#include "operator/webhook/inject/script_setters.h"

#include <algorithm>
#include <array>
#include <span>

#include "operator/webhook/inject/command_head.h"
#include "operator/webhook/inject/shell_expansion.h"
#include "operator/webhook/inject/shell_words.h"

namespace larder::webhook {
namespace {

// Files of virtual environments and toolkits, which set no flags and keep PYTHONPATH.
constexpr std::array<std::string_view, 4> kEnvironments{"activate", "conda.sh", "setvars.sh",
                                                        "set_env.sh"};
constexpr std::array<std::string_view, 4> kReaders{"read", "mapfile", "readarray", "getopts"};
// Words in front of a command that are no command themselves.
constexpr std::array<std::string_view, 4> kInFront{"builtin", "command", "time", "coproc"};
constexpr std::size_t kMostCarriers = 32;

// Whether the word behind an option of read or mapfile is the option's value: read -p PROMPT. The
// -t of mapfile has no value.
bool is_value_of(const ScriptWord& option, std::string_view reader) {
  const std::string_view valued = reader == "read" ? "pdnNtui" : "dnOsuCc";
  return option.text && option.text->size() > 1 && option.text->front() == '-' &&
         valued.find(option.text->back()) != std::string_view::npos;
}

// read "$NAME", printf -v "$NAME" ...: a variable whose name the script does not show.
bool reads_unnamed(const std::vector<ScriptWord>& words, std::size_t head) {
  const std::string name = words[head].text.value_or("");
  for (std::size_t at = head + 1; at < words.size(); ++at) {
    const ScriptWord &word = words[at], &before = words[at - 1];
    if (word.text || word.begins.find('[') != std::string::npos) continue;
    if (one_of(name, kReaders) && !is_value_of(before, name)) return true;
    if (name == "printf" && (before.text == "-v" || word.begins == "-v")) return true;
  }
  return false;
}

}  // namespace

bool is_setter(std::string_view command) {
  command = command.substr(0, command.find(' '));
  return command == "source" || command == "." || command == "eval" || command == "printf" ||
         one_of(command, kReaders) || one_of(command, kDeclaring);
}

std::size_t head_place(const std::vector<ScriptWord>& words) {
  std::size_t at = 0;
  const auto is_in_front = [&words](std::size_t place) {
    return words[place].known.find('=') != std::string::npos ||
           one_of(words[place].text.value_or(""), kInFront) ||
           (place > 0 && words[place].text == "-p");  // time -p
  };
  while (at + 1 < words.size() && is_in_front(at)) ++at;
  return at;
}

std::vector<std::string> read_by(const ScriptEngines::Command& command) {
  const std::size_t head = head_place(command.words);
  const std::string name = command.words[head].text.value_or("");
  std::vector<std::string> names;
  // printf takes `-v NAME` and `-vNAME`. `read A[1]` sets A.
  for (std::size_t at = head + 1; at < command.words.size(); ++at) {
    std::string known = command.words[at].known;
    const bool printed = name == "printf" && (command.words[at - 1].text == "-v" ||
                                              (known.starts_with("-v") && known.size() > 2));
    if (!printed && !one_of(name, kReaders)) continue;
    if (printed && known.starts_with("-v")) known.erase(0, 2);
    // `read -raNAME`: the name may stand in the word of the option.
    const bool option = !printed && known.starts_with('-');
    if (option) known.erase(0, std::min(known.find('a'), known.size() - 1) + 1);
    names.push_back(known.substr(0, known.find('[')));
  }
  return names;
}

std::string sets_any(const ScriptEngines::Command& command) {
  const std::size_t head = head_place(command.words);
  const std::string name = command.words[head].text.value_or("");
  const ScriptWord& first = command.words[head];
  // eval "$X", and eval "A$N=1", where the name of the variable is not known.
  if (name.empty() && command.evaluated &&
      (first.begins.empty() || first.known.find('=') != std::string::npos))
    return "an eval";
  if (reads_unnamed(command.words, head)) return "`" + name + "`";
  if (name == "source" || name == ".") {
    const std::string file = head + 1 < command.words.size() ? command.words[head + 1].known : "";
    return one_of(program_name(file), kEnvironments) ? "" : "the file " + file;
  }
  // trap 'X=1' DEBUG
  if (name == "trap" && head + 1 < command.words.size() &&
      command.words[head + 1].known.find('=') != std::string::npos)
    return "a trap";
  if (!one_of(name, kDeclaring)) return "";
  // declare 'A=("$X")' expands the quoted text. eval "export $N=1" has another name in each run.
  const bool declares = name == "declare" || name == "typeset" || name == "local";
  const auto is_opaque = [&name, declares](const ScriptWord& word) {
    return (!word.text && word.begins.find('=') == std::string::npos) ||
           (declares && word.known.find("=(") != std::string::npos) ||
           (name != "export" && word.text && word.text->starts_with('-') &&
            word.text->find('n') != std::string::npos);  // -n, -gn
  };
  return std::ranges::any_of(std::span(command.words).subspan(head + 1), is_opaque)
             ? "`" + name + "`"
             : "";
}

std::set<std::string> functions_of(const ScriptEngines& script) {
  std::set<std::string> names;
  for (const ScriptEngines::Command& command : script.commands())
    if (command.function) names.insert(command.words.front().known);
  return names;
}

std::optional<std::size_t> arguments_set_by(const ScriptEngines::Command& command,
                                            const std::set<std::string>& functions) {
  if (command.function) return std::nullopt;
  const std::size_t head = head_place(command.words);
  const std::string name = command.words[head].text.value_or("");
  // A variable may name a function: `$START --port 1`.
  if (name == "set" || functions.contains(name) || (name.empty() && !functions.empty()))
    return head + 1;
  std::vector<std::optional<std::string>> argv;
  for (const ScriptWord& word : command.words) argv.push_back(word.text);
  const CommandHead shell = head_of(argv);
  if (shell.kind != CommandHead::Kind::kShell || shell.index + 1 >= argv.size())
    return std::nullopt;
  return shell.index + 1;
}

bool carries(const ScriptWord& word, const std::set<std::string>& carriers) {
  return std::ranges::any_of(word.expansions, [&carriers](const std::string& written) {
    const Expansion one = expansion_of(written);
    if (one.kind == Expansion::Kind::kPositional) return carriers.contains("@");
    // The rest counts as text: ${X:+"${NAME[@]}"}.
    return carriers.contains(one.name) ||
           std::ranges::any_of(carriers, [&one](const std::string& name) {
             return one.rest.find("$" + name) != std::string::npos ||
                    one.rest.find("${" + name) != std::string::npos;
           });
  });
}

// Until a pass finds no further one. Each pass but the last adds a name, so kMostCarriers bounds
// the passes.
std::set<std::string> carriers_of(const ScriptEngines& script, const std::string& array) {
  const std::set<std::string> functions = functions_of(script);
  std::set<std::string> carriers{array};
  const auto any = [&carriers](const std::vector<ScriptWord>& words) {
    return std::ranges::any_of(
        words, [&carriers](const ScriptWord& word) { return carries(word, carriers); });
  };
  for (std::size_t before = 0; before < carriers.size() && carriers.size() < kMostCarriers;) {
    before = carriers.size();
    for (const Assignment& one : script.assignments())
      if (any(one.words)) carriers.insert(one.name);
    for (const ScriptEngines::Command& command : script.commands())
      if (!carriers.contains("@") && any(command.words) && arguments_set_by(command, functions))
        carriers.insert("@");
  }
  return carriers;
}

}  // namespace larder::webhook
