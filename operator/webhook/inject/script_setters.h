// Commands of a script that set variables whose values the script does not show: `read X`,
// `. FILE`, `eval "$X"`, `export $(cat FILE)`.
//
// Pure; thread-safe; never throws.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/webhook/inject/script_engines.h"

namespace larder::webhook {

// The variables that the command fills while the script runs: by read, mapfile, getopts, printf -v.
std::vector<std::string> read_by(const ScriptEngines::Command& command);

// The part of the command that may set any variable: "an eval", "the file /etc/env", "`export`";
// "": none.
std::string sets_any(const ScriptEngines::Command& command);

// Whether the command sets variables: `read -r`, `source`, `eval`.
bool is_setter(std::string_view command);

// The index of the command's name, after assignments and words such as `time`.
std::size_t head_place(const std::vector<ScriptWord>& words);

// The names of the script's functions.
std::set<std::string> functions_of(const ScriptEngines& script);

// The index of the first word that becomes a member of $@: of `set`, of a call of a function, or
// of a shell in the script, `bash -c SCRIPT NAME WORDS`. Empty: the command sets no $@.
std::optional<std::size_t> arguments_set_by(const ScriptEngines::Command& command,
                                            const std::set<std::string>& functions);

// The variables through which the words of an array reach a command, with the array itself:
// ALL=("${NAME[@]}" --port 1). "@" stands for $@, as in `run "${NAME[@]}"`.
std::set<std::string> carriers_of(const ScriptEngines& script, const std::string& array);

// Whether an expansion of the word is one of the carriers.
bool carries(const ScriptWord& word, const std::set<std::string>& carriers);

}  // namespace larder::webhook
