// Whether a connector can reach an engine through an expansion of a shell or of Kubernetes:
// variables of script and container, arrays, `$@`, `set --`, functions, the output of a command.
//
// A source that may have a connector counts as unread. A variable without a value in pod and script
// counts as empty, although the image could set it. Pure; thread-compatible; never throws.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/api/object.h"
#include "operator/webhook/inject/model_words.h"
#include "operator/webhook/inject/script_engines.h"

namespace larder::webhook {

inline constexpr std::size_t kMostLooks = 256u << 10;  // words and characters of a script

// The part of a text that conflicts with our flag: "a connector", "a file of flags" (--config); "":
// none.
std::string set_in(std::string text);

inline constexpr std::size_t kMostVariables = 128;      // container variables of one command line
inline constexpr std::size_t kMostEnvLooks = 1u << 20;  // entries of env, for one command line
inline constexpr std::size_t kMostInside = 64;          // script variables nested in values

struct FlagSource {
  // In order of severity. kRefused: known flags, or a model, with which vLLM takes no connector.
  enum class Kind { kNone, kConnector, kUnread, kRefused } kind = Kind::kNone;
  std::string what;  // "the variable X", "the text after the script"
  // kConnector: set_in(); kUnread: the reason, "envFrom may give it"; kRefused: the reason and the
  // remedy.
  std::string cause;
};

// The sources in the variables that Kubernetes puts into texts, $(NAME), of one container. Each
// variable is judged once.
class VariableSources {
 public:
  // The container outlives the object.
  explicit VariableSources(const api::Object& container) : container_(container) {}

  FlagSource of(const std::string& name);
  // The source in a text that may have flags by itself, and in its variables.
  FlagSource of_text(const std::string& text, const std::string& what);
  // The text with all its variables; empty: a value is unread, or the text is empty.
  std::optional<std::string> known(const std::string& text);

 private:
  FlagSource of_names(const std::string& text);
  // The text with the known values. `left` bounds the number of values.
  std::string expanded(const std::string& text, std::size_t& left);
  std::string expanded(const std::string& text);

  const api::Object& container_;
  std::map<std::string, FlagSource> known_;
  std::size_t env_looks_ = 0;  // entries of env read so far, at most kMostEnvLooks
};

// Why a container with this source gets no cache, and the remedy; "" for kNone.
std::string why_not(const FlagSource& source);

class FlagSources {
 public:
  // `after`: the member of argv_of(container) that is $0 of the script. Container and script
  // outlive the object.
  FlagSources(const api::Object& container, std::size_t after, const ScriptEngines& script);

  // The source for an engine of the script. kUnread and kRefused only if the source may be more
  // than the value of an option; kRefused for the model too.
  FlagSource of_engine(std::size_t engine);

 private:
  using Words = std::vector<ScriptWord>;

  void find_setters(std::size_t place);
  bool may_name_setter(const ScriptWord& command);
  void find_defaults(const Words& words);
  // `model`: the word stands in the place of the model, so an array's first word is the model.
  FlagSource of_words(const Words& words, std::size_t first, bool takes_model);
  FlagSource of_word(const ScriptWord& word, bool model = false);
  FlagSource of_expansion(const std::string& written, bool model);
  FlagSource of_text(const std::string& rest, bool model = false);
  FlagSource of_reread(const std::string& text);
  FlagSource of_variable(const std::string& name, bool model = false);
  FlagSource of_assignments(const std::string& name, bool model, std::size_t since, bool& replaced);
  FlagSource of_loops(const std::string& name, std::size_t used, std::size_t since, bool& replaced);
  FlagSource of_environment(const std::string& name);
  FlagSource of_positional();
  FlagSource of_array(std::size_t engine);
  bool may_spell_flag(const ScriptWord& word, std::set<std::string>& seen);
  bool may_spell_flag(const std::string& name, std::set<std::string>& seen);
  bool is_spent(std::size_t looks);

  const api::Object& container_;
  const ScriptEngines& script_;
  std::map<std::string, std::vector<std::size_t>>
      assigned_;                                            // indexes in assignments(), by variable
  std::map<std::string, std::vector<std::size_t>> looped_;  // commands() that are `for NAME in ...`
  std::map<std::string, std::vector<std::string>> defaults_;  // X of ${NAME:=X}, by variable
  std::set<std::string> read_;  // by read, mapfile, getopts, printf -v
  std::set<std::string> functions_;
  ModelWords model_;
  std::string hidden_by_;  // a function or an alias with the name of vLLM's program
  // commands() that set $@, and the first word that becomes a member.
  std::vector<std::pair<std::size_t, std::size_t>> positional_;
  // commands() that may set any variable: source FILE, eval "$(...)".
  std::vector<std::pair<std::size_t, std::string>> files_;
  std::string first_file_;  // a file that bash reads before the script (BASH_ENV)
  // Index in commands() of the current words. Later commands have not yet set their variables.
  std::size_t place_ = 0;
  std::set<std::string> inside_;    // variables in progress, against cycles
  std::set<std::string> circles_;   // variables that depend on themselves: X=${X:-1}
  VariableSources variables_;       // of the container
  FlagSource arguments_;            // source of the args behind the script
  std::vector<std::string> texts_;  // of the args behind the script
  bool twice_ = false;              // whether a second reading expands values, as in an eval
  // Arrays with an engine, and the command that sets each. of_engine() reads their words.
  std::set<std::pair<std::string, std::size_t>> engine_arrays_;
  std::size_t script_looks_ = 0;
};

// The source for words without a shell, of argv_of(container) from `first`, where Kubernetes
// replaces variables.
FlagSource source_in_words(const api::Object& container, std::size_t first, bool takes_model);

}  // namespace larder::webhook
