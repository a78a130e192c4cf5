// Finding: one thing that is so with a pod or pool, and what to do about it. A plain value.
#pragma once

#include <string>
#include <vector>

namespace larder::kube {

struct Finding {
  enum class Weight {
    kProblem,  // this is why
    kPerhaps,  // this may be why
    kNote,     // well, or under way
  };
  Weight weight = Weight::kNote;
  std::string reason;  // CamelCase, for programs
  std::string what;    // a sentence without its full stop
  std::string cure;    // what to do; may be empty
};

using Findings = std::vector<Finding>;

inline bool has_problem(const Findings& findings) {
  for (const Finding& finding : findings)
    if (finding.weight == Finding::Weight::kProblem) return true;
  return false;
}

}  // namespace larder::kube
