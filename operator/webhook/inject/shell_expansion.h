// One expansion of a shell, as it is written: "$X", "${X:-1}", "$(date)", "$@".
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>
#include <string_view>

namespace larder::webhook {

struct Expansion {
  enum class Kind {
    kHarmless,    // a number or a path, which no flag of vLLM is: $#, $?, $((1 + 2)), <(command)
    kVariable,    // `name`
    kPositional,  // $1, $@, $*
    kKubernetes,  // $(NAME): Kubernetes puts its variable there where it has one; else a shell runs the command NAME
    kUnknown,     // the output of a command, the variable that another one names
  } kind = Kind::kUnknown;
  std::string name;  // kVariable, kKubernetes
  std::string rest;  // shell text that may be in its outcome too: what follows the name inside ${...}
};

Expansion expansion_of(std::string_view written);

}  // namespace larder::webhook
