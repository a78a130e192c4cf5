// One expansion of a shell, as written: "$X", "${X:-1}", "$(date)", "$@".
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>
#include <string_view>

namespace larder::webhook {

struct Expansion {
  enum class Kind {
    kHarmless,    // a number or a path, never a flag of vLLM: $#, $?, $((1 + 2)), <(command)
    kVariable,    // `name`
    kPositional,  // $1, $@, $*
    kKubernetes,  // $(NAME): a variable of Kubernetes, or else the output of the command NAME
    kUnknown,     // the output of a command, or an indirect variable
  } kind = Kind::kUnknown;
  std::string name;  // kVariable, kKubernetes
  std::string rest;  // shell text after the name inside ${...}, which the result may contain
};

Expansion expansion_of(std::string_view written);

// Whether only a run shows the name of a variable in the text: "$$N" and "${$N}", where a second
// reading, as in eval "X=\$$N", expands the value of N. Kubernetes reads "$$X" in args as $X.
bool names_by_value(std::string_view text);

}  // namespace larder::webhook
