#include "operator/reconcile/backend_status.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "operator/reconcile/cache_serves.h"
#include "operator/reconcile/objects_applied.h"
#include "operator/reconcile/pool_status.h"

namespace larder::reconcile {
namespace {

using api::Object;
using Weight = BackendFinding::Weight;

// "wrong-password" as WrongPassword.
// Reasons of conditions are CamelCase (Kubernetes API conventions). The ids come from a fixed list,
// so reasons are bounded.
std::string reason_of_id(const std::string& id) {
  std::string reason;
  bool upper = true;
  for (const char c : id) {
    if (c != '-') reason += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '-';
  }
  return reason;
}

// The first finding makes the condition: one message with one remedy.
const BackendFinding* first_of(const BackendFacts& facts, Weight weight) {
  if (!facts.seen || !facts.seen->ok()) return nullptr;
  for (const BackendFinding& finding : (*facts.seen)->findings)
    if (finding.weight == weight) return &finding;
  return nullptr;
}

bool was_seen(const BackendFacts& facts) {
  return facts.seen && facts.seen->ok();
}

// NotReadable is Unknown and no fault: the kubelet mounts the Secret without the operator (F-232).
Condition secret_missing(const BackendFacts& facts) {
  if (!facts.secrets.missing.empty())
    return {"SecretMissing", Truth::kTrue, "NotFound", facts.secrets.missing};
  if (!facts.secrets.unreadable.empty())
    return {"SecretMissing", Truth::kUnknown, "NotReadable", facts.secrets.unreadable};
  return {"SecretMissing", Truth::kFalse, "AllThere", "every named Secret exists"};
}

// One larderd that uses the backend proves that pods can reach the servers.
bool no_sidecar_can(const SidecarsView& sidecars) {
  return sidecars.asked > 0 && sidecars.serving == 0;
}

// "2 of 3 sidecars use it, another cannot: ..."
std::string by_sidecars(const SidecarsView& sidecars) {
  const std::string text = std::to_string(sidecars.serving) + " of " +
                           std::to_string(sidecars.asked) + " sidecars use the backend";
  return sidecars.serving == sidecars.asked ? text : text + ", another cannot: " + sidecars.why_not;
}

// Judges by the sidecars, for an operator that could not ask the servers.
Condition reachable_by_sidecars(const BackendFacts& facts, const std::string& why) {
  const SidecarsView& sidecars = facts.sidecars;
  if (no_sidecar_can(sidecars))
    return {"Reachable", Truth::kFalse, "NotBySidecars",
            "no sidecar can use the backend: " + sidecars.why_not +
                ". The operator did not ask: " + why};
  if (sidecars.asked > 0)
    return {"Reachable", Truth::kTrue, "BySidecars",
            by_sidecars(sidecars) + ". The operator did not ask: " + why};
  return {"Reachable", Truth::kUnknown, "NotChecked", why};
}

// The order is that of causes: a missing Secret explains an unchecked backend, and an unusable
// finding explains missing servers.
Condition reachable(const BackendFacts& facts) {
  if (!facts.secrets.missing.empty()) return reachable_by_sidecars(facts, facts.secrets.missing);
  if (!facts.secrets.unreadable.empty())
    return reachable_by_sidecars(facts, facts.secrets.unreadable);
  const api::Plugin* plugin = api::plugin_of(facts.backend);
  if (facts.no_plugin_image)
    return {"Reachable", Truth::kFalse, "NoPluginImage",
            "the operator has no image of the plug-in " + std::string(plugin->container) +
                ": set " + std::string(plugin->scheme) +
                ".image of the chart, then restart the pods"};
  if (!facts.seen)
    return reachable_by_sidecars(facts, plugin ? "only " + std::string(plugin->container) +
                                                     " in the pods of a pool speaks to " +
                                                     std::string(plugin->service)
                                               : "the operator has not checked the backend yet");
  if (!facts.seen->ok())
    return {"Reachable", Truth::kFalse, "CannotBeAsked", facts.seen->status().text()};
  if (const BackendFinding* bad = first_of(facts, Weight::kUnusable))
    return {"Reachable", Truth::kFalse, reason_of_id(bad->id), bad->text};
  const BackendSeen& seen = **facts.seen;
  if (seen.servers == 0)
    return {"Reachable", Truth::kFalse, "NoServer",
            "no server of the backend answers: see spec.endpoints"};
  const std::string server =
      seen.product + " " + seen.version +
      (seen.servers > 1 ? ", " + std::to_string(seen.servers) + " servers" : "");
  // The operator's own connection proves little: the pods have to reach the servers.
  const SidecarsView& sidecars = facts.sidecars;
  if (no_sidecar_can(sidecars))
    return {"Reachable", Truth::kFalse, "NotBySidecars",
            "the operator reaches the backend (" + server + "), and none of " +
                std::to_string(sidecars.asked) + " sidecars: " + sidecars.why_not +
                ". Check NetworkPolicies, the service mesh and DNS of the sidecars' namespace. "
                "Check that the sidecars have the current Secret"};
  return {"Reachable", Truth::kTrue, "Answers",
          sidecars.serving == sidecars.asked ? server : server + ". " + by_sidecars(sidecars)};
}

Condition well_set(const BackendFacts& facts) {
  if (!was_seen(facts))
    return {"WellSet", Truth::kUnknown, "NotChecked",
            "the servers have not reported their settings"};
  if (const BackendFinding* warning = first_of(facts, Weight::kWarning))
    return {"WellSet", Truth::kFalse, reason_of_id(warning->id), warning->text};
  return {"WellSet", Truth::kTrue, "WellSet", "the settings of the servers are right for a cache"};
}

// A managed server without a ready pod. Its refused connections are no fault yet.
// The reason Starting tells a server under start from a server that is down.
bool is_starting(const BackendFacts& facts) {
  return facts.backend->spec.managed &&
         (!facts.stateful_set || api::number_at(*facts.stateful_set, "status.readyReplicas") == 0);
}

// The first fault in the order objects, Secret, reachability. WellSet and CacheServes are left out:
// a server with a bad policy still serves.
Condition ready(const BackendFacts& facts, const std::vector<Condition>& others) {
  if (!facts.parsed.ok()) return {"Ready", Truth::kFalse, "Invalid", facts.parsed.text()};
  const auto of_type = [&](const char* type) {
    return std::ranges::find(others, type, &Condition::type);
  };
  if (const auto objects = of_type("ObjectsApplied");
      objects != others.end() && objects->status == Truth::kFalse)
    return {"Ready", Truth::kFalse, objects->reason, objects->message};
  if (const auto secret = of_type("SecretMissing"); secret->status == Truth::kTrue)
    return {"Ready", Truth::kFalse, "SecretMissing", secret->message};
  const auto reached = of_type("Reachable");
  if (reached->status != Truth::kTrue && is_starting(facts))
    return {
        "Ready", Truth::kFalse, "Starting",
        "StatefulSet " + api::managed_name(*facts.backend) +
            " has no ready pod yet: kubectl get pods -l larder.dev/backend=" + facts.backend->name};
  return {"Ready", reached->status, reached->reason, reached->message};
}

// "0.2ms": one digit.
std::string latency_text(double ms) {
  char text[32];
  // One digit hides the jitter of single pings. From 9.5 on "%.1g" would round to "1e+01".
  std::snprintf(text, sizeof(text), ms < 9.5 ? "%.1gms" : "%.0fms", ms);
  return text;
}

// Keeps the shown latency until it changes by a factor of two: each write of a status wakes all
// watches.
std::string steady_latency(std::uint64_t ping_ns, const std::string& before) {
  const double ms = static_cast<double>(ping_ns) / 1e6,
               shown = std::strtod(before.c_str(), nullptr);
  return shown > 0 && ms > shown / 2 && ms < shown * 2 ? before : latency_text(ms);
}

// Steps of a hundredth, as for pools: each SET of a chunk would otherwise change the status.
Object memory_of(const BackendSeen& seen) {
  const std::uint64_t step =
      std::max<std::uint64_t>(std::max(seen.max_bytes, seen.used_bytes) / 100, 1);
  const std::string used = size_text(seen.used_bytes / step * step);
  if (seen.max_bytes == 0) return {{"used", used}, {"text", used}};
  return {{"used", used},
          {"size", size_text(seen.max_bytes)},
          {"text", used + "/" + size_text(seen.max_bytes)}};
}

}  // namespace

std::vector<Condition> backend_conditions(const BackendFacts& facts) {
  std::vector<Condition> conditions;
  if (facts.backend) {
    if (facts.backend->spec.managed)
      conditions.push_back(objects_applied(facts.brought, "backend", "the objects of the server"));
    conditions.push_back(secret_missing(facts));
    conditions.push_back(reachable(facts));
    // The operator cannot ask a service behind a plug-in for its settings.
    if (!api::plugin_of(facts.backend)) conditions.push_back(well_set(facts));
    conditions.push_back(cache_serves(facts.sidecars));
  }
  // Ready is first, where `kubectl describe` shows the condition first.
  conditions.insert(conditions.begin(), ready(facts, conditions));
  return conditions;
}

Object backend_status(const BackendFacts& facts, const Object& before, const std::string& now) {
  const std::vector<Condition> conditions = backend_conditions(facts);
  const auto reached = std::ranges::find(conditions, "Reachable", &Condition::type);
  Object status = {{"observedGeneration", facts.generation},
                   {"reachable", reached != conditions.end() && reached->status == Truth::kTrue}};
  if (was_seen(facts) && (*facts.seen)->servers > 0) {
    const BackendSeen& seen = **facts.seen;
    for (const auto& [key, text] :
         {std::pair("server", seen.product), std::pair("version", seen.version),
          std::pair("role", seen.role), std::pair("mode", seen.mode)})
      if (!text.empty()) status[key] = text;
    status["servers"] = seen.servers;
    status["memory"] = memory_of(seen);
    if (seen.ping_ns > 0)
      status["latency"] = steady_latency(seen.ping_ns, api::text_at(before, "status.latency"));
  }
  if (const api::Plugin* plugin = api::plugin_of(facts.backend);
      plugin && !facts.sidecars.mode.empty()) {
    // "larder-mooncake 0.3.13.post1": the version of the service's client in the plug-in.
    const std::string& mode = facts.sidecars.mode;
    status["server"] = plugin->service;
    if (const std::size_t space = mode.rfind(' '); space != std::string::npos)
      status["version"] = mode.substr(space + 1);
  }
  // Keep the last problem readable after its repair.
  const std::string last = api::text_at(before, "status.lastError");
  const bool wrong = conditions.front().status == Truth::kFalse;
  if (wrong || !last.empty())
    status["lastError"] = wrong ? bounded(conditions.front().message) : last;
  status["conditions"] =
      conditions_json(conditions, api::at(before, "status.conditions"), facts.generation, now);
  return status;
}

}  // namespace larder::reconcile
