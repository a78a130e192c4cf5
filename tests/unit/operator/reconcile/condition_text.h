// Conditions in a form for comparison.
#pragma once

#include <string>
#include <vector>

#include "operator/reconcile/conditions.h"

namespace larder::reconcile {

inline Condition condition_of(const std::vector<Condition>& conditions, const std::string& type) {
  for (const Condition& condition : conditions)
    if (condition.type == type) return condition;
  return {type, Truth::kUnknown, "(not there)", ""};
}

// "False NotMade".
inline std::string in_short(const Condition& condition) {
  return (condition.status == Truth::kTrue    ? "True "
          : condition.status == Truth::kFalse ? "False "
                                              : "Unknown ") +
         condition.reason;
}

}  // namespace larder::reconcile
