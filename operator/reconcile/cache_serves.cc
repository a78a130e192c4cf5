#include "operator/reconcile/cache_serves.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace larder::reconcile {
namespace {

struct Kind {
  std::string_view fallback, reason;
};

// Kinds of larderd's fallbacks that cost hits, the worst first. Other conditions tell of the other
// kinds, or nothing is lost by them.
constexpr std::array<Kind, 4> kKinds{{{"engines", "EngineRefused"},
                                      {"memory", "MemoryShort"},
                                      {"backend", "BackendDegraded"},
                                      {"disk", "DiskDegraded"}}};

// The cost of that kind for the pods, in the words of the first pod; empty: no pod has the kind.
// The first pod's sentence stands for all pods: the reasons are mostly equal, and the message is
// bounded.
std::string reported_fallback(const PoolFacts& facts, std::string_view kind) {
  std::vector<std::string> names;
  std::string why;
  for (const PodView& pod : facts.pods) {
    const auto answer = facts.heard.answers.find(pod.uid);
    if (answer == facts.heard.answers.end()) continue;
    const auto found =
        std::ranges::find(answer->second.fallbacks, kind, &LarderdAnswer::Fallback::kind);
    if (found == answer->second.fallbacks.end()) continue;
    if (names.empty()) why = quoted(found->why);
    names.push_back(pod.name);
  }
  return names.empty() ? ""
                       : of_pods(names, facts.pods.size()) + ": " + std::string(kind) + ": " + why;
}

}  // namespace

Condition cache_serves(const PoolFacts& facts) {
  if (facts.heard.answers.empty())
    return {"CacheServes", Truth::kUnknown, "NotAsked", "no larderd has answered yet"};
  std::string_view reason;
  std::string message;
  // All kinds go into the message; the worst kind gives the reason.
  for (const Kind& kind : kKinds) {
    const std::string text = reported_fallback(facts, kind.fallback);
    if (text.empty()) continue;
    if (reason.empty()) reason = kind.reason;
    message += (message.empty() ? "" : ". ") + text;
  }
  if (!reason.empty()) return {"CacheServes", Truth::kFalse, std::string(reason), message};
  return {"CacheServes", Truth::kTrue, "Serves",
          "every larderd with an answer serves engines from all tiers"};
}

// larderds that cannot reach the backend at all are the affair of the condition Reachable.
Condition cache_serves(const SidecarsView& sidecars) {
  if (sidecars.serving == 0)
    return {"CacheServes", Truth::kUnknown, "NotAsked",
            "no larderd that reads from the backend has answered"};
  if (sidecars.degraded.empty())
    return {"CacheServes", Truth::kTrue, "Serves",
            "every larderd that reads from the backend can use the backend"};
  return {"CacheServes", Truth::kFalse, "BackendDegraded",
          of_pods(sidecars.degraded, sidecars.asked) +
              " read from the backend and cannot use the backend fully: " +
              quoted(sidecars.why_degraded)};
}

}  // namespace larder::reconcile
