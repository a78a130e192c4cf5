#include "operator/webhook/inject/script_setters.h"

#include <algorithm>
#include <array>
#include <span>

#include "operator/webhook/inject/command_head.h"

namespace larder::webhook {
namespace {

// Files of virtual environments and toolkits, which set no flags and keep PYTHONPATH.
constexpr std::array<std::string_view, 4> kEnvironments{"activate", "conda.sh", "setvars.sh",
                                                        "set_env.sh"};
constexpr std::array<std::string_view, 4> kReaders{"read", "mapfile", "readarray", "getopts"};
constexpr std::array<std::string_view, 5> kDeclaring{"export", "declare", "typeset", "readonly",
                                                     "local"};

bool one_of(std::string_view text, const auto& all) {
  return std::ranges::find(all, text) != all.end();
}

}  // namespace

std::size_t head_place(const std::vector<ScriptWord>& words) {
  std::size_t at = 0;
  while (at + 1 < words.size() && (words[at].known.find('=') != std::string::npos ||
                                   words[at].text == "builtin" || words[at].text == "command"))
    ++at;
  return at;
}

std::vector<std::string> read_by(const ScriptEngines::Command& command) {
  const std::size_t head = head_place(command.words);
  const std::string name = command.words[head].text.value_or("");
  std::vector<std::string> names;
  for (std::size_t at = head + 1; at < command.words.size(); ++at)
    if (one_of(name, kReaders) || (name == "printf" && command.words[at - 1].text == "-v"))
      names.push_back(command.words[at].known);
  return names;
}

std::string sets_any(const ScriptEngines::Command& command) {
  const std::size_t head = head_place(command.words);
  const std::string name = command.words[head].text.value_or("");
  if (name.empty() && command.evaluated && command.words[head].begins.empty()) return "an eval";
  if (name == "source" || name == ".") {
    const std::string file = head + 1 < command.words.size() ? command.words[head + 1].known : "";
    return one_of(program_name(file), kEnvironments) ? "" : "the file " + file;
  }
  if (!one_of(name, kDeclaring)) return "";
  const auto is_opaque = [&name](const ScriptWord& word) {
    return (!word.text && word.begins.find('=') == std::string::npos) ||
           (word.text == "-n" && name != "export");
  };
  return std::ranges::any_of(std::span(command.words).subspan(head + 1), is_opaque)
             ? "`" + name + "`"
             : "";
}

}  // namespace larder::webhook
