#include "operator/kubectl/pool_state.h"

#include "operator/reconcile/conditions.h"
#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using api::Object;

std::string text(const Object& object, std::string_view path, const char* otherwise) {
  const std::string found = base::printable(api::text_at(object, path));
  return found.empty() ? otherwise : found;
}

}  // namespace

// The same judgement for CachePool and CacheBackend. A type that ends in Missing is bad when True.
Findings unwell(const Object& object) {
  Findings findings;
  Diagnostic ready{Diagnostic::Weight::kProblem, "", "", ""};
  for (const Object& condition : api::at(object, "status.conditions")) {
    const std::string type = api::text_at(condition, "type"),
                      status = api::text_at(condition, "status");
    // SecretMissing is bad when True; all other conditions are bad when False.
    const bool bad = status == (type.ends_with("Missing") ? "True" : "False");
    if (!bad) continue;
    // Conditions of advice, or of work that waits for a restart: the cache serves meanwhile.
    const bool mild = type == "PodsUpToDate" || type == "WellSet" || type == "EnginesAttached" ||
                      type == "CacheServes" || type == "Helping" || type == "PeersReachable" ||
                      api::text_at(condition, "reason") == "Starting";
    Diagnostic finding{mild ? Diagnostic::Weight::kPerhaps : Diagnostic::Weight::kProblem,
                       text(condition, "reason", "Unknown"),
                       base::printable(type) + ": " + text(condition, "message", ""), ""};
    (type == "Ready" ? ready : findings.emplace_back()) = std::move(finding);
  }
  // Ready repeats the reason of another condition, and is shown only alone.
  if (findings.empty() && !ready.reason.empty()) findings.push_back(ready);
  return findings;
}

PoolState pool_seen(const Object& pool) {
  PoolState seen;
  seen.ns = api::namespace_of(pool);
  seen.name = api::name_of(pool);
  seen.backend = base::printable(api::text_at(pool, "spec.backendRef.name"));
  seen.by_node = api::text_at(pool, "spec.placement") == "Node";
  seen.adds_flags = api::truth_at(pool, "spec.engine.flags", true);
  const reconcile::Truth ready = reconcile::truth_of(pool, "Ready");
  seen.ready = ready == reconcile::Truth::kTrue    ? "True"
               : ready == reconcile::Truth::kFalse ? "False"
                                                   : "Unknown";
  // A field that an older operator does not write is shown as "-".
  seen.memory = text(pool, "status.memory.text", "-");
  seen.hits = text(pool, "status.hitRatio", "-");
  seen.pods = api::number_at(pool, "status.pods.total");
  seen.attached = api::number_at(pool, "status.pods.attached");
  seen.engines = api::number_at(pool, "status.engines");
  seen.findings = unwell(pool);
  // Every status of the operator has observedGeneration.
  if (api::number_at(pool, "status.observedGeneration", -1) < 0)
    seen.findings.push_back(
        {Diagnostic::Weight::kProblem, "NotReconciled",
         "the operator has written no status for this pool yet",
         "check whether the operator runs: kubectl get pods -A -l app.kubernetes.io/name=larder"});
  return seen;
}

}  // namespace larder::kubectl
