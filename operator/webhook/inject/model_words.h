// Whether a later word of a command line may be the model. `vllm serve "$X" m` has its model behind
// the first word, and "$X" may then be a flag. In `vllm serve "$X" --port 1` "$X" is the model.
//
// Follows variables, arrays, loops and `$@` to values that pod and script show. An unread value is
// no model here: flag_sources.h decides about it. Thread-compatible; never throws.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/object.h"
#include "operator/webhook/inject/script_engines.h"

namespace larder::webhook {

std::vector<FlagWord> flag_words(const std::vector<ScriptWord>& words, std::size_t first);

class ModelWords {
 public:
  // `after`: the member of argv_of(container) that is $0 of the script. Container and script
  // outlive the object.
  ModelWords(const api::Object& container, std::size_t after, const ScriptEngines& script);

  // Behind words[first].
  bool is_behind(const std::vector<ScriptWord>& words, std::size_t first);
  // In an addition to the array, A=("$X"); A+=(m).
  bool is_added_to(const std::string& array);
  // The same, or behind an array that is a command, C=(vllm serve "$X"); "${C[@]}" m. False for "".
  bool is_in_or_behind(const std::string& array);

 private:
  using Words = std::vector<ScriptWord>;

  bool may_be(const ScriptWord& word);
  bool may_be_value(const std::string& name);
  bool may_be_argument();
  bool is_spent(std::size_t looks);

  const api::Object& container_;
  const ScriptEngines& script_;
  std::map<std::string, std::vector<std::size_t>> assigned_;  // indexes in assignments()
  std::map<std::string, std::vector<std::size_t>> looped_;    // commands() that are `for NAME in`
  // commands() that set $@, and the word in front of its first member.
  std::vector<std::pair<std::size_t, std::size_t>> setters_;
  std::vector<FlagWord> arguments_;  // of the script, behind $0
  std::set<std::string> inside_;     // variables in progress
  std::size_t looks_ = 0;
};

}  // namespace larder::webhook
