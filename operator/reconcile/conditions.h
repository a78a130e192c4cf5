// Conditions of a resource's status: what is so, why, and what to do. Pure; thread-safe.
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
  std::string message;  // what is so and what to do; cut at kMostMessage
};

inline constexpr std::size_t kMostMessage = 1024;

// Cut at kMostMessage, never in the middle of a character.
std::string bounded(const std::string& text);

// status.conditions, in the order given. Each keeps the time of its last change of status from `before` (status.conditions as it
// stands); one whose status changed gets `now` (RFC 3339).
api::Object conditions_json(const std::vector<Condition>& conditions, const api::Object& before, std::int64_t generation,
                            const std::string& now);

// The status of the condition `type` of an object as it stands; kUnknown where it has none. Its message beside it.
Truth truth_of(const api::Object& object, std::string_view type);
std::string message_of(const api::Object& object, std::string_view type);
std::string reason_of(const api::Object& object, std::string_view type);

// "a, b, c and 9 more": bounded, however many there are.
std::string some_of(const std::vector<std::string>& names);
// "2 of 7 pods (a, b)".
std::string of_pods(const std::vector<std::string>& names, std::size_t all);
// The words of a pod, kubelet or scheduler as part of a message: what follows the first 300 bytes is "...".
std::string quoted(const std::string& text);

// 2026-11-22T11:22:33Z of seconds since the epoch.
std::string rfc3339(std::int64_t seconds);

}  // namespace larder::reconcile
