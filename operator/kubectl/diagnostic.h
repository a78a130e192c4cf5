// Diagnostic: one thing that is so with a pod or pool, and what to do about it. A plain value.
#pragma once

#include <string>
#include <vector>

namespace larder::kubectl {

struct Diagnostic {
  enum class Weight {
    kProblem,  // this is why
    kPerhaps,  // this may be why
    kNote,     // well, or under way
  };
  Weight weight = Weight::kNote;
  std::string reason;  // CamelCase, for programs
  std::string what;    // a sentence without its full stop
  std::string remedy;  // what to do; may be empty
};

using Findings = std::vector<Diagnostic>;

inline bool has_problem(const Findings& findings) {
  for (const Diagnostic& finding : findings)
    if (finding.weight == Diagnostic::Weight::kProblem) return true;
  return false;
}

}  // namespace larder::kubectl
