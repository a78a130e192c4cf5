#include "operator/webhook/inject/flag_sources.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "operator/webhook/inject/command_head.h"
#include "operator/webhook/inject/command_shape.h"
#include "operator/webhook/inject/container_variables.h"
#include "operator/webhook/inject/engine_flags.h"
#include "operator/webhook/inject/script_setters.h"
#include "operator/webhook/inject/shell_expansion.h"
#include "operator/webhook/inject/starters.h"

namespace larder::webhook {
namespace {

using api::Object;
using SourceKind = FlagSource::Kind;

constexpr std::size_t kMostWritten = 60;          // bytes of an expansion in a sentence
constexpr const char* kGaps = " \t\r\n\\\"'";     // between the words of a value
constexpr std::size_t kMostExpanded = 64u << 10;  // bytes of a text with Kubernetes' variables
// Variables that bash fills with what a script reads, matches or ran.
constexpr std::array<std::string_view, 7> kFilledByBash{
    "REPLY", "MAPFILE", "OPTARG", "BASH_REMATCH", "BASH_ARGV", "COPROC", "_"};

FlagSource worse(FlagSource one, FlagSource other) {
  return other.kind > one.kind ? other : one;
}

FlagSource connector(std::string what, std::string set) {
  return set.empty() ? FlagSource{}
                     : FlagSource{SourceKind::kConnector, std::move(what), std::move(set)};
}

FlagSource unread(std::string what, std::string cause) {
  return {SourceKind::kUnread, std::move(what), std::move(cause)};
}

std::string named(const std::string& name) {
  return "the variable " + name;
}

// The source in a known value: a connector, or flags and a model that take none.
FlagSource of_value(const std::string& what, const std::string& value) {
  if (FlagSource found = connector(what, set_in(value)); found.kind != SourceKind::kNone)
    return found;
  std::vector<FlagWord> words;
  for (std::size_t at = 0; (at = value.find_first_not_of(kGaps, at)) != std::string::npos;) {
    const std::size_t end = std::min(value.find_first_of(kGaps, at), value.size());
    words.push_back({value.substr(at, end - at)});
    at = end;
  }
  std::string why = refused_by_flags(words);
  return why.empty() ? FlagSource{} : FlagSource{SourceKind::kRefused, what, std::move(why)};
}

bool is_model_flag(const std::string& word) {
  return flag_name(word) == "--model" || flag_name(word) == "--model-id";
}

// Whether a source matters in the place of a word. A single value of an option holds no flags. A
// model without connectors matters wherever the word is the model.
bool counts(const FlagSource& found, std::span<const FlagWord> words, std::size_t at,
            bool takes_model) {
  if (found.kind <= SourceKind::kConnector || may_be_flags(words, at, takes_model)) return true;
  if (found.kind == SourceKind::kUnread) return false;
  return at == 0 || is_model_flag(words[at].begins) ||
         is_model_flag(words[at - 1].text.value_or(""));
}

// Whether a text may be a part of the name of a connector's flag.
bool is_piece(const std::string& written) {
  const std::string text = lower(written);
  return text.find("kv") != std::string::npos || text.find("transfer") != std::string::npos;
}

// Whether a function or an alias of the name stands in front of vLLM: vllm() { ...; }.
bool hides_engine(const std::string& name) {
  return name == "vllm" || is_python(name) || is_starter(name);
}

}  // namespace

FlagSource VariableSources::of_names(const std::string& text) {
  FlagSource found;
  for (const std::string& name : kubernetes_names(text)) found = worse(found, of(name));
  return found;
}

// $(A)$(B) may give a flag together. `left` bounds the values, and kMostExpanded their length.
std::string VariableSources::expanded(const std::string& text, std::size_t& left) {
  std::string out = text;
  for (const std::string& name : kubernetes_names(text)) {
    env_looks_ += 1 + api::at(container_, "env").size();
    if (left == 0 || out.size() > kMostExpanded || env_looks_ > kMostEnvLooks) break;
    --left;
    const std::string written = "$(" + name + ")";
    const std::size_t at = out.find(written);
    if (at == std::string::npos) continue;
    out.replace(at, written.size(), expanded(variable_of(container_, name).text, left));
  }
  return out;
}

std::string VariableSources::expanded(const std::string& text) {
  std::size_t left = kMostVariables;
  return expanded(text, left);
}

std::optional<std::string> VariableSources::known(const std::string& text) {
  std::string value = expanded(text);
  return value.empty() || !kubernetes_names(value).empty() ? std::nullopt
                                                           : std::optional(std::move(value));
}

FlagSource VariableSources::of_text(const std::string& text, const std::string& what) {
  FlagSource found = connector(what, set_in(expanded(text)));
  if (env_looks_ > kMostEnvLooks) return unread(what, "too many variables");
  return worse(found, of_names(text));
}

FlagSource VariableSources::of(const std::string& name) {
  // The entry is made before the walk: a circle of variables ends here with kNone.
  const auto [at, is_new] = known_.try_emplace(name);
  if (!is_new) return at->second;
  if (known_.size() > kMostVariables) return unread(named(name), "too many nested variables");
  const ContainerVariable variable = variable_of(container_, name);
  FlagSource found =
      variable.kind == ContainerVariable::Kind::kUnread
          ? unread(named(name), variable.from)
          : worse(of_value(named(name), expanded(variable.text)), of_names(variable.text));
  return known_[name] = std::move(found);
}

// "--kv-t" is the shortest prefix that argparse takes for the flag. --config is matched with its
// end, since --config-format is another flag.
std::string set_in(std::string text) {
  std::ranges::replace(text, '_', '-');
  if (text.find("--kv-t") != std::string::npos ||
      text.find("kv-transfer-config") != std::string::npos ||
      text.find("--kv-offloading-size") != std::string::npos)
    return "a connector";
  if (text.find("--use-replay") != std::string::npos)
    return "--use-replayssm, with which vLLM takes no connector,";
  for (std::size_t at = text.find("--config"); at != std::string::npos;
       at = text.find("--config", at + 1)) {
    const char next = at + 8 < text.size() ? text[at + 8] : '\0';
    if (next == '\0' || next == '=' || next == ' ' || next == '\n' || next == '\t')
      return "a file of flags";
  }
  return "";
}

std::string why_not(const FlagSource& source) {
  if (source.kind == SourceKind::kConnector)
    return source.what + " sets " + source.cause + "; write the flag into the command instead";
  if (source.kind == SourceKind::kRefused)
    return source.what + " forbids a connector: " + source.cause;
  if (source.kind == SourceKind::kUnread)
    return source.what + " may hold a connector that the injector cannot read (" + source.cause +
           "); write the flags into the command or into env, and put a model or another single "
           "value in double quotes";
  return "";
}

// The script is read once; of_engine() then follows variables from the place of each engine.
FlagSources::FlagSources(const Object& container, std::size_t after, const ScriptEngines& script)
    : container_(container),
      script_(script),
      functions_(functions_of(script)),
      model_(container, after, script),
      variables_(container) {
  for (std::size_t at = 0; at < script.assignments().size(); ++at) {
    assigned_[script.assignments()[at].name].push_back(at);
    find_defaults(script.assignments()[at].words);
  }
  for (const std::string& name : functions_)
    if (hides_engine(name)) hidden_by_ = name;
  for (std::size_t place = 0; place < script.commands().size(); ++place) find_setters(place);
  for (std::size_t engine = 0; engine < script.count(); ++engine)
    if (!script.array(engine).empty())
      engine_arrays_.emplace(script.array(engine), script.command(engine));
  const std::string file = "BASH_ENV";
  if (variable_of(container, file).kind == ContainerVariable::Kind::kText &&
      !variable_of(container, file).text.empty())
    first_file_ = "the file of " + file;
  const auto argv = argv_of(container);
  for (std::size_t at = after; at < argv.size(); ++at) {
    if (!argv[at]) continue;
    texts_.push_back(*argv[at]);
    arguments_ = worse(arguments_, variables_.of_text(*argv[at], "the text after the script"));
  }
}

// Commands are sorted by their effect. source and eval may set any variable. read, printf -v and
// loops set named variables. set and calls of functions set $@.
void FlagSources::find_setters(std::size_t place) {
  const ScriptEngines::Command& command = script_.commands()[place];
  const std::size_t head = head_place(command.words);
  const std::string name = command.words[head].text.value_or("");
  find_defaults(command.words);
  std::string what = sets_any(command);
  if (what.empty() && name.empty() && may_name_setter(command.words[head]))
    what = "a command that only a run of the script shows";
  if (!what.empty()) files_.emplace_back(place, std::move(what));
  for (const std::string& one : read_by(command)) read_.insert(one);
  if (const auto first = arguments_set_by(command, functions_))
    positional_.emplace_back(place, *first);
  if ((name == "for" || name == "select") && head + 1 < command.words.size())
    looped_[command.words[head + 1].known].push_back(place);
  if (name != "alias") return;
  for (std::size_t at = head + 1; at < command.words.size(); ++at) {
    const std::string& known = command.words[at].known;
    if (const std::string alias = known.substr(0, known.find('=')); hides_engine(alias))
      hidden_by_ = alias;
  }
}

// R=read; $R X: the variable names a command that sets variables.
bool FlagSources::may_name_setter(const ScriptWord& command) {
  return std::ranges::any_of(command.expansions, [&](const std::string& written) {
    const std::string name = expansion_of(written).name;
    const auto assigned = assigned_.find(name);
    return is_setter(variable_of(container_, name).text) ||
           (assigned != assigned_.end() &&
            std::ranges::any_of(assigned->second, [&](std::size_t at) {
              return is_setter(script_.assignments()[at].value);
            }));
  });
}

// : "${NAME:=X}" sets NAME.
void FlagSources::find_defaults(const Words& words) {
  for (const ScriptWord& word : words)
    for (const std::string& written : word.expansions) {
      const Expansion one = expansion_of(written);
      const std::size_t value = one.rest.starts_with(":=") ? 2 : one.rest.starts_with("=") ? 1 : 0;
      if (value > 0) defaults_[one.name].push_back(one.rest.substr(value));
    }
}

// Bounds the work for a hostile script: values that refer to each other would be read exponentially
// often.
bool FlagSources::is_spent(std::size_t looks) {
  script_looks_ += looks;
  return script_looks_ > kMostLooks;
}

// place_ is the command of the engine: only a certain assignment in front of it replaces earlier
// values.
FlagSource FlagSources::of_engine(std::size_t engine) {
  if (!hidden_by_.empty())
    return unread("`" + hidden_by_ + "` of the script",
                  "the script gives the name another meaning");
  place_ = script_.command(engine);
  twice_ = script_.read_twice(engine);
  const std::string& array = script_.array(engine);
  const bool takes_model = script_.takes_model(engine) && !model_.is_in_or_behind(array);
  const FlagSource found = of_words(script_.words(engine), 0, takes_model);
  return array.empty() ? found : worse(found, of_array(engine));
}

// A word that can only be a model or a value is no source, even if unreadable. Most scripts have
// `vllm serve $MODEL --port $PORT`.
FlagSource FlagSources::of_words(const Words& words, std::size_t first, bool takes_model) {
  const std::vector<FlagWord> flags = flag_words(words, first);
  takes_model = takes_model && !model_.is_behind(words, first);
  FlagSource worst;
  for (std::size_t at = 0; at < flags.size(); ++at) {
    if (flags[at].text) continue;
    FlagSource found = of_word(words[first + at], at == 0 && takes_model);
    if (counts(found, flags, at, takes_model)) worst = worse(worst, std::move(found));
  }
  return worst;
}

FlagSource FlagSources::of_word(const ScriptWord& word, bool model) {
  FlagSource found;
  for (const std::string& written : word.expansions)
    found = worse(found, of_expansion(written, model));
  // ${A}kv-transfer-config, $A$B: no piece is a flag, and the word may be one.
  std::set<std::string> seen;
  const bool pieces = word.expansions.size() + (word.known.empty() ? 0 : 1) > 1;
  const bool valued =
      !word.begins.empty() && (word.begins[0] != '-' || word.begins.find('=') != std::string::npos);
  if (pieces && !valued && may_spell_flag(word, seen))
    found = worse(found, unread("the script", "the name of a flag may be put together of pieces"));
  return found;
}

bool FlagSources::may_spell_flag(const ScriptWord& word, std::set<std::string>& seen) {
  if (is_spent(1) || is_piece(word.known)) return true;
  return std::ranges::any_of(word.expansions, [&](const std::string& written) {
    const Expansion one = expansion_of(written);
    return is_piece(one.rest) || (!one.name.empty() && may_spell_flag(one.name, seen));
  });
}

// `seen` ends the walk in a circle, X=$X$Y, and bounds its depth.
bool FlagSources::may_spell_flag(const std::string& name, std::set<std::string>& seen) {
  if (seen.size() >= kMostInside) return true;
  if (!seen.insert(name).second) return false;
  if (is_spent(1 + api::at(container_, "env").size())) return true;
  if (is_piece(variable_of(container_, name).text)) return true;
  const auto any = [&](const Words& words) {
    return std::ranges::any_of(words,
                               [&](const ScriptWord& word) { return may_spell_flag(word, seen); });
  };
  return std::ranges::any_of(
             assigned_[name],
             [&](std::size_t at) { return any(script_.assignments()[at].words); }) ||
         std::ranges::any_of(looped_[name],
                             [&](std::size_t at) { return any(script_.commands()[at].words); });
}

// The result of $(...) and ${!X} is unknown: such a word counts as unread.
FlagSource FlagSources::of_expansion(const std::string& written, bool model) {
  if (is_spent(written.size())) return unread("the script", "the script is too long");
  const Expansion one = expansion_of(written);
  const std::string shown =
      written.size() <= kMostWritten ? written : written.substr(0, kMostWritten) + "...";
  switch (one.kind) {
    case Expansion::Kind::kHarmless: return of_text(one.rest);
    case Expansion::Kind::kVariable: {
      // ${X,,} and ${X/a/b} change the value.
      const bool changes = !one.rest.empty() &&
                           std::string_view(",^/@~").find(one.rest[0]) != std::string_view::npos;
      // ${X@P} expands the value once more, and ${X@E} decodes its escapes.
      const bool again = one.rest.ends_with("@P") || one.rest.ends_with("@E");
      std::set<std::string> seen;
      if (again || (changes && (is_piece(one.rest) || may_spell_flag(one.name, seen))))
        return unread(shown, "only a run of the script shows the value");
      return worse(of_variable(one.name, model), of_text(one.rest, model));
    }
    case Expansion::Kind::kPositional: return worse(of_positional(), of_text(one.rest));
    case Expansion::Kind::kKubernetes:
      // In args, Kubernetes replaces $(NAME) only for a variable of the container; otherwise the
      // shell runs the command NAME.
      if (is_spent(api::at(container_, "env").size())) break;
      if (variable_of(container_, one.name).kind != ContainerVariable::Kind::kAbsent)
        return of_environment(one.name);
      break;
    case Expansion::Kind::kUnknown: break;
  }
  return unread(shown, "only a run of the script shows the value");
}

// The text after the name in ${NAME...}: a default, a replacement.
FlagSource FlagSources::of_text(const std::string& rest, bool model) {
  if (rest.empty()) return {};
  if (is_spent(rest.size())) return unread("the script", "the script is too long");
  // "x" in front keeps the text inside a word: the rest of ${X#*/} would begin a comment.
  const auto read = ScriptEngines::find("x" + rest);
  if (!read.ok()) return unread("${...}", read.status().text());
  FlagSource found = connector("the script", set_in(rest));
  if (names_by_value(rest)) found = unread("${...}", "only a run of the script shows the value");
  for (const ScriptEngines::Command& command : read->commands())
    for (const ScriptWord& word : command.words) found = worse(found, of_word(word, model));
  return found;
}

// An eval expands the values that it reads: A='$B'; eval "vllm serve m $A".
FlagSource FlagSources::of_reread(const std::string& text) {
  return twice_ && text.find_first_of("$`") != std::string::npos ? of_text(text) : FlagSource{};
}

FlagSource FlagSources::of_environment(const std::string& name) {
  return worse(variables_.of(name),
               twice_ ? of_reread(variable_of(container_, name).text) : FlagSource{});
}

FlagSource FlagSources::of_variable(const std::string& name, bool model) {
  if (is_spent(1 + files_.size()) || inside_.size() >= kMostInside)
    return unread(named(name), "the script is too long or too deeply nested");
  if (read_.contains(name) || std::ranges::find(kFilledByBash, name) != kFilledByBash.end())
    return unread(named(name), "the script reads the value while running");
  // X=${X:-1}: the variable depends on itself, and the earlier value stays in play.
  if (!inside_.insert(name).second) {
    circles_.insert(name);
    return {};
  }
  const std::size_t used = place_;
  std::size_t since = 0;  // the command after the last one that may set any variable
  std::string file = first_file_;
  for (const auto& [place, what] : files_) {
    // With functions, text order is not run order: a file in a function counts wherever it stands,
    // and no assignment is certainly behind it.
    if (place >= used && functions_.empty()) continue;
    const bool called = !functions_.empty() && !script_.commands()[place].certain;
    since = std::max(since, called ? script_.commands().size() : place + 1);
    file = what;
  }
  bool replaced = false;
  FlagSource found = of_assignments(name, model, since, replaced);
  found = worse(found, of_loops(name, used, since, replaced));
  for (const std::string& text : defaults_[name]) found = worse(found, of_text(text));
  place_ = used;
  if (script_looks_ > kMostLooks) found = unread(named(name), "the script is too long");
  circles_.erase(name);
  // No certain assignment: the value may come from the file, or from the container's env.
  if (!replaced && !file.empty())
    found = worse(found, unread(named(name), file + " may set the variable"));
  if (!replaced && file.empty()) found = worse(found, of_environment(name));
  inside_.erase(name);
  return found;
}

// Only the assignment that starts an array may have the model as an unread word: additions follow
// behind the model. Changes place_.
FlagSource FlagSources::of_assignments(const std::string& name, bool model, std::size_t since,
                                       bool& replaced) {
  const std::size_t used = place_;
  FlagSource found;
  std::string joined;  // F=--kv-; F+=transfer-config
  for (const std::size_t at : assigned_[name]) {
    const Assignment& one = script_.assignments()[at];
    if (is_spent(one.value.size())) break;
    // A certain assignment before the use, and behind the last file, replaces everything earlier.
    const bool certain = one.replaces && one.command < used && one.command >= since;
    const bool read = !one.adds && engine_arrays_.contains({name, one.command});
    place_ = one.command;
    if (!one.array) joined += one.value;
    if (!read) {
      const bool starts = one.array && !one.adds && model && !model_.is_added_to(name);
      found = worse(found, worse(of_value(named(name), one.value), of_reread(one.value)));
      found = worse(found, of_words(one.words, 0, starts));
    }
    // X=${X:-1} keeps the earlier value.
    if (circles_.erase(name) == 0 && certain) replaced = true;
  }
  return worse(found, connector(named(name), set_in(joined)));
}

// `for NAME` without a list goes through $@. A loop with a readable word replaces earlier values.
// Changes place_.
FlagSource FlagSources::of_loops(const std::string& name, std::size_t used, std::size_t since,
                                 bool& replaced) {
  FlagSource found;
  for (const std::size_t place : looped_[name]) {
    const Words& words = script_.commands()[place].words;
    if (is_spent(words.size())) break;
    place_ = place;
    if (words.back().known == name && words.back().text) found = worse(found, of_positional());
    for (const ScriptWord& word : words) {
      found = worse(found, worse(connector(named(name), set_in(word.known)), of_word(word)));
      found = worse(found, of_reread(word.known));
    }
    // for NAME in WORD
    if (words.size() > 3 && words.back().text && place < used && place >= since) replaced = true;
  }
  return found;
}

// $1, $@: the container's args behind the script, `set -- ...`, the arguments of a function.
FlagSource FlagSources::of_positional() {
  if (!inside_.insert("@").second) return {};
  FlagSource found = arguments_;
  for (const auto& [place, what] : files_)
    if (!what.starts_with('`') && (place < place_ || !functions_.empty()))
      found = worse(found, unread("$@", what + " may set the arguments of the script"));
  for (const std::string& text : texts_) found = worse(found, of_reread(text));
  for (const auto& [place, first] : positional_) {
    const Words& words = script_.commands()[place].words;
    if (is_spent(words.size())) found = unread("the script", "the script is too long");
    const std::size_t used = std::exchange(place_, place);
    for (std::size_t at = first; at < words.size(); ++at) {
      found = worse(found, worse(connector("the script, by `" + words.front().known + "`,",
                                           set_in(words[at].known)),
                                 of_word(words[at])));
      found = worse(found, of_reread(words[at].known));
    }
    place_ = used;
  }
  inside_.erase("@");
  return found;
}

// NAME=(vllm serve m): additions to the array, and other words of the commands that run it.
// Additions by NAME+=(...) may carry a connector, and so may words that follow "${NAME[@]}". The
// words of the engine itself are read by of_engine().
FlagSource FlagSources::of_array(std::size_t engine) {
  const std::set<std::string> carriers = carriers_of(script_, script_.array(engine));
  const bool has_model = !script_.words(engine).empty();
  const std::size_t used = std::exchange(place_, script_.commands().size());
  FlagSource found;
  for (const std::string& name : carriers)
    if (name != "@") found = worse(found, of_variable(name));
  for (const ScriptEngines::Command& command : script_.commands()) {
    if (is_spent(command.words.size())) return unread("the script", "the script is too long");
    const auto uses = std::ranges::find_if(
        command.words, [&](const ScriptWord& word) { return carries(word, carriers); });
    if (uses == command.words.end()) continue;
    const auto first = static_cast<std::size_t>(uses - command.words.begin()) + 1;
    for (std::size_t at = first; at < command.words.size(); ++at)
      found = worse(found, connector("the script", set_in(command.words[at].known)));
    found = worse(found, of_words(command.words, first, !has_model));
  }
  place_ = used;
  return found;
}

// Without a shell only Kubernetes replaces, and a word stays one word.
FlagSource source_in_words(const Object& container, std::size_t first, bool takes_model) {
  const auto argv = argv_of(container);
  std::vector<FlagWord> flags;
  for (std::size_t at = first; at < argv.size(); ++at) {
    const std::string text = argv[at].value_or("");
    const bool plain = kubernetes_names(text).empty();
    flags.push_back({plain ? argv[at] : std::nullopt, false, text.substr(0, text.find("$("))});
  }
  FlagSource worst;
  VariableSources variables(container);
  // `vllm serve $(X) $(MODEL)`: a known value may be the model.
  std::vector<FlagWord> shown = flags;
  for (std::size_t at = 0; at < flags.size(); ++at)
    if (!flags[at].text && argv[first + at]) shown[at].text = variables.known(*argv[first + at]);
  takes_model = takes_model && !has_model_elsewhere(shown);
  for (std::size_t at = 0; at < flags.size(); ++at) {
    if (flags[at].text || !argv[first + at]) continue;
    FlagSource found = variables.of_text(*argv[first + at], "the args");
    if (counts(found, flags, at, takes_model)) worst = worse(worst, std::move(found));
  }
  return worst;
}

}  // namespace larder::webhook
