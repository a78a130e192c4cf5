#include "operator/webhook/inject/model_words.h"

#include <algorithm>

#include "operator/webhook/inject/command_shape.h"
#include "operator/webhook/inject/container_variables.h"
#include "operator/webhook/inject/script_setters.h"
#include "operator/webhook/inject/shell_expansion.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr std::size_t kMostLooks = 64u << 10;  // words and variables of one command line
constexpr std::size_t kMostInside = 32;        // variables nested in values

// A first word of unknown content, in front of words that are looked at.
const FlagWord kFirst{std::nullopt, false, ""};

// The words of a value: an unquoted $NAME is split at blanks.
bool has_model(const std::string& value) {
  std::vector<FlagWord> words{kFirst};
  constexpr const char* kBlanks = " \t\r\n";
  for (std::size_t at = 0; (at = value.find_first_not_of(kBlanks, at)) != std::string::npos;) {
    const std::size_t end = std::min(value.find_first_of(kBlanks, at), value.size());
    words.push_back({value.substr(at, end - at)});
    at = end;
  }
  return has_model_elsewhere(words);
}

// The text of ${NAME:-m} and ${NAME=$OTHER}: "m", "$OTHER"; "" for other forms.
std::string default_in(const std::string& rest) {
  const std::size_t op = rest.starts_with(':') ? 1 : 0;
  if (rest.size() <= op || std::string_view("-=+").find(rest[op]) == std::string_view::npos)
    return "";
  const std::size_t begin = rest.find_first_not_of("\"' ", op + 1);
  return begin == std::string::npos ? ""
                                    : rest.substr(begin, rest.find_last_not_of("\"' ") + 1 - begin);
}

}  // namespace

std::vector<FlagWord> flag_words(const std::vector<ScriptWord>& words, std::size_t first) {
  std::vector<FlagWord> flags;
  for (std::size_t at = first; at < words.size(); ++at)
    flags.push_back({words[at].text, words[at].many, words[at].begins});
  return flags;
}

ModelWords::ModelWords(const Object& container, std::size_t after, const ScriptEngines& script)
    : container_(container), script_(script) {
  for (std::size_t at = 0; at < script.assignments().size(); ++at)
    assigned_[script.assignments()[at].name].push_back(at);
  const std::set<std::string> functions = functions_of(script);
  for (std::size_t at = 0; at < script.commands().size(); ++at) {
    const Words& words = script.commands()[at].words;
    if (words.size() > 3 && words[0].text == "for") looped_[words[1].known].push_back(at);
    const auto first = arguments_set_by(script.commands()[at], functions);
    if (first && *first > 0) setters_.emplace_back(at, *first - 1);
  }
  const auto argv = argv_of(container);
  for (std::size_t at = after + 1; at < argv.size(); ++at) arguments_.push_back({argv[at]});
}

// Bounds the work for a hostile script. FlagSources then finds the script too long.
bool ModelWords::is_spent(std::size_t looks) {
  looks_ += looks;
  return looks_ > kMostLooks || inside_.size() > kMostInside;
}

bool ModelWords::is_behind(const Words& words, std::size_t first) {
  if (is_spent(words.size())) return true;
  std::vector<FlagWord> shown = flag_words(words, first);
  for (std::size_t at = 1; at < shown.size(); ++at)
    if (!shown[at].text && may_be(words[first + at])) shown[at].text = "model";
  return has_model_elsewhere(shown);
}

bool ModelWords::may_be(const ScriptWord& word) {
  if (is_spent(1)) return true;
  if (!word.begins.empty()) return word.begins[0] != '-';
  return std::ranges::any_of(word.expansions, [&](const std::string& written) {
    const Expansion one = expansion_of(written);
    if (one.kind == Expansion::Kind::kPositional && may_be_argument()) return true;
    if (!one.name.empty() && may_be_value(one.name)) return true;
    const std::string text = default_in(one.rest);
    return text.starts_with('$') ? may_be({std::nullopt, "", "", {text}}) : has_model(text);
  });
}

// The values that the container, an assignment or a loop gives a variable.
bool ModelWords::may_be_value(const std::string& name) {
  const std::string text = variable_of(container_, name).text;
  if (is_spent(1 + api::at(container_, "env").size() + text.size())) return true;
  if (!inside_.insert(name).second) return false;
  bool found = has_model(text);
  for (const std::size_t at : assigned_[name]) {
    const Words& value = script_.assignments()[at].words;
    if (found || is_spent(1 + value.size())) break;
    Words words{ScriptWord{}};
    words.insert(words.end(), value.begin(), value.end());
    found = is_behind(words, 0);
  }
  // for NAME in WORDS
  for (const std::size_t at : looped_[name])
    found = found || is_behind(script_.commands()[at].words, 2);
  inside_.erase(name);
  return found;
}

// $1 and $@: the container's args behind the script, `set -- ...`, the arguments of a function.
bool ModelWords::may_be_argument() {
  if (is_spent(1 + arguments_.size())) return true;
  if (!inside_.insert("@").second) return false;
  std::vector<FlagWord> shown{kFirst};
  shown.insert(shown.end(), arguments_.begin(), arguments_.end());
  bool found = has_model_elsewhere(shown);
  for (const auto& [at, first] : setters_)
    found = found || is_behind(script_.commands()[at].words, first);
  inside_.erase("@");
  return found;
}

bool ModelWords::is_added_to(const std::string& array) {
  return std::ranges::any_of(assigned_[array], [&](std::size_t at) {
    const Assignment& one = script_.assignments()[at];
    if (!one.adds || is_spent(1 + one.words.size())) return false;
    Words words{ScriptWord{}};
    words.insert(words.end(), one.words.begin(), one.words.end());
    return is_behind(words, 0);
  });
}

bool ModelWords::is_in_or_behind(const std::string& array) {
  if (array.empty()) return false;
  if (is_added_to(array)) return true;
  const std::set<std::string> carriers = carriers_of(script_, array);
  return std::ranges::any_of(script_.commands(), [&](const ScriptEngines::Command& command) {
    const auto uses = std::ranges::find_if(
        command.words, [&](const ScriptWord& word) { return carries(word, carriers); });
    return uses != command.words.end() &&
           is_behind(command.words, static_cast<std::size_t>(uses - command.words.begin()));
  });
}

}  // namespace larder::webhook
