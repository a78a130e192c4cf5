// Diagnostic: one finding about a pod or pool, with the remedy. A plain value. A kProblem makes the
// exit status 1; kPerhaps and kNote do not.
#pragma once

#include <string>
#include <vector>

namespace larder::kubectl {

struct Diagnostic {
  enum class Weight {
    kProblem,  // the cause
    kPerhaps,  // a possible cause
    kNote,     // good, or in progress
  };
  Weight weight = Weight::kNote;
  std::string reason;  // CamelCase, for programs
  std::string what;    // a sentence without a full stop
  std::string remedy;  // may be empty
};

using Findings = std::vector<Diagnostic>;

inline bool has_problem(const Findings& findings) {
  for (const Diagnostic& finding : findings)
    if (finding.weight == Diagnostic::Weight::kProblem) return true;
  return false;
}

}  // namespace larder::kubectl
