#include "operator/reconcile/conditions.h"

#include <algorithm>
#include <ctime>

#include "shim/base/utf8.h"

namespace larder::reconcile {
namespace {

using api::Object;

// A message quotes several larderd: the bounds keep the message readable and below kMostMessage.
constexpr std::size_t kMostNames = 5, kMostQuoted = 300;

std::string_view word(Truth truth) {
  return truth == Truth::kTrue ? "True" : truth == Truth::kFalse ? "False" : "Unknown";
}

const Object& of_type(const Object& conditions, std::string_view type) {
  static const Object kNone;
  if (!conditions.is_array()) return kNone;
  for (const Object& condition : conditions)
    if (api::text_at(condition, "type") == type) return condition;
  return kNone;
}

}  // namespace

// cut_text() cuts between characters of UTF-8: the API server refuses invalid UTF-8.
std::string bounded(const std::string& text) {
  return text.size() <= kMostMessage ? text : std::string(cut_text(text, kMostMessage - 3)) + "...";
}

// Server-side apply replaces the list of conditions by these: a condition that no longer applies
// disappears.
Object conditions_json(const std::vector<Condition>& conditions, const Object& before,
                       std::int64_t generation, const std::string& now) {
  Object all = Object::array();
  for (const Condition& condition : conditions) {
    const Object& was = of_type(before, condition.type);
    const std::string since = api::text_at(was, "lastTransitionTime");
    // lastTransitionTime changes with the status only, as the conventions of Kubernetes say.
    const bool same = api::text_at(was, "status") == word(condition.status) && !since.empty();
    all.push_back({{"type", condition.type},
                   {"status", word(condition.status)},
                   {"reason", condition.reason},
                   {"message", bounded(condition.message)},
                   {"observedGeneration", generation},
                   {"lastTransitionTime", same ? since : now}});
  }
  return all;
}

// A missing or unknown condition counts as Unknown, so a new object has no recovery and no failure.
Truth truth_of(const Object& object, std::string_view type) {
  const std::string status =
      api::text_at(of_type(api::at(object, "status.conditions"), type), "status");
  return status == "True" ? Truth::kTrue : status == "False" ? Truth::kFalse : Truth::kUnknown;
}
std::string message_of(const Object& object, std::string_view type) {
  return api::text_at(of_type(api::at(object, "status.conditions"), type), "message");
}
std::string reason_of(const Object& object, std::string_view type) {
  return api::text_at(of_type(api::at(object, "status.conditions"), type), "reason");
}

std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNames)
    text += " and " + std::to_string(names.size() - kMostNames) + " more";
  return text;
}

std::string of_pods(const std::vector<std::string>& names, std::size_t all) {
  return std::to_string(names.size()) + " of " + std::to_string(all) + " pods (" + some_of(names) +
         ")";
}

std::string quoted(const std::string& text) {
  return text.size() <= kMostQuoted ? text : std::string(cut_text(text, kMostQuoted)) + "...";
}

// Seconds without fractions, the form of metav1.Time.
std::string rfc3339(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace larder::reconcile
