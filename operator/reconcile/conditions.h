// Conditions of a resource's status: state, reason and remedy. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/object.h"

namespace larder::reconcile {

enum class Truth { kFalse, kTrue, kUnknown };

struct Condition {
  std::string type;
  Truth status = Truth::kUnknown;
  std::string reason;   // CamelCase, for programs
  std::string message;  // state and remedy; cut at kMostMessage
};

inline constexpr std::size_t kMostMessage = 1024;

// Cuts at kMostMessage, between characters.
std::string bounded(const std::string& text);

// status.conditions in the given order. A condition with an unchanged status keeps its time from
// `before`, the current status.conditions; a changed one gets `now` (RFC 3339).
api::Object conditions_json(const std::vector<Condition>& conditions, const api::Object& before,
                            std::int64_t generation, const std::string& now);

// The status of the condition `type` of an object; kUnknown: no such condition. And its message.
Truth truth_of(const api::Object& object, std::string_view type);
std::string message_of(const api::Object& object, std::string_view type);
std::string reason_of(const api::Object& object, std::string_view type);

// A bounded list: "a, b, c and 9 more".
std::string some_of(const std::vector<std::string>& names);
// "2 of 7 pods (a, b)".
std::string of_pods(const std::vector<std::string>& names, std::size_t all);
// The words of a pod, kubelet or scheduler as part of a message: what follows the first 300 bytes
// is "...".
std::string quoted(const std::string& text);

// Seconds since the epoch as 2026-11-22T11:22:33Z.
std::string rfc3339(std::int64_t seconds);

}  // namespace larder::reconcile
