#include "operator/kubectl/backend_state.h"

#include <algorithm>

#include "operator/kubectl/pool_state.h"
#include "operator/kubectl/table.h"
#include "operator/kubectl/why_report.h"
#include "operator/reconcile/conditions.h"
#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using api::Object;
using Weight = Diagnostic::Weight;

// More rows are in -o json.
constexpr std::size_t kMostRows = 20;  // one screen

// "Valkey 8.0.1, Standalone, master, 3Gi of 4Gi, 0.4 ms". Empty until the operator has
// reached the server.
// The fields come from the status that the operator wrote, so the user needs no access to the
// server.
std::string server_of(const Object& backend) {
  std::string text;
  const std::string type = api::text_at(backend, "spec.type");
  const bool plugin = type == "Mooncake" || type == "InfiniStore";
  for (const char* path :
       {"status.server", "status.version", plugin ? "spec.mooncake.protocol" : "spec.mode",
        "status.role", "status.memory.text", "status.latency"})
    if (const std::string part = base::printable(api::text_at(backend, path)); !part.empty())
      text += (text.empty() ? "" : std::string(path) == "status.version" ? " " : ", ") + part;
  return api::text_at(backend, "status.server").empty() ? "" : text;
}

// Three groups: larderd that cannot read the backend, that read and refuse writes, and that do not
// know the backend. One reason a group, since most pods of a group share the reason.
void add_pods(BackendState& seen) {
  std::vector<std::string> failing, degraded, without;
  std::string why, why_degraded;
  for (const BackendOfPod& pod : seen.pods) {
    if (pod.place.empty()) without.push_back(pod.pod);
    if (pod.place.empty() || pod.reason.empty()) continue;
    (pod.uses() ? degraded : failing).push_back(pod.pod);
    if (std::string& first = pod.uses() ? why_degraded : why; first.empty()) first = pod.reason;
  }
  if (!failing.empty())
    seen.findings.push_back(
        {Weight::kProblem, "PodsCannotUseIt",
         std::to_string(failing.size()) + " of " + std::to_string(seen.pods.size()) +
             " larderd cannot use the backend (" + reconcile::some_of(failing) + "): " + why,
         "if the operator reaches the backend and larderd does not: check NetworkPolicies, and "
         "whether larderd has the new password yet"});
  if (!degraded.empty())
    seen.findings.push_back(
        {Weight::kPerhaps, "BackendDegraded",
         std::to_string(degraded.size()) + " of " + std::to_string(seen.pods.size()) +
             " larderd read from the backend and cannot use the backend fully (" +
             reconcile::some_of(degraded) + "): " + why_degraded,
         "if a Redis or Valkey is full, set maxmemory-policy allkeys-lru, or raise maxmemory; a "
         "full Mooncake needs more contributed memory, a full InfiniStore a larger "
         "--prealloc-size"});
  if (!without.empty())
    seen.findings.push_back(
        {Weight::kPerhaps, "PodsWithoutIt",
         std::to_string(without.size()) + " larderd run without the backend (" +
             reconcile::some_of(without) + "): these pods are older than backendRef",
         "run kubectl rollout restart for the Deployment of these pods at a good time"});
}

}  // namespace

// One larderd that uses the backend proves that the backend works, whatever the operator sees.
// A NetworkPolicy or a mesh may stop the operator alone.
bool BackendState::unusable() const {
  const bool used = std::ranges::any_of(pods, &BackendOfPod::uses);
  return has_problem(findings) && !used;
}

// The operator's findings first, then those of the pods; the sort by weight keeps this order inside
// a weight.
BackendState backend_seen(const Object& backend, std::vector<std::string> pools,
                          std::vector<BackendOfPod> pods) {
  BackendState seen{api::namespace_of(backend), api::name_of(backend), server_of(backend),
                    std::move(pools),           std::move(pods),       unwell(backend)};
  if (reconcile::truth_of(backend, "Ready") == reconcile::Truth::kUnknown)
    seen.findings.push_back({Weight::kPerhaps, "NotChecked",
                             "the operator has not checked the backend yet: " +
                                 base::printable(reconcile::message_of(backend, "Ready")),
                             "check whether the operator runs; the operator checks every 30 s"});
  add_pods(seen);
  if (seen.pools.empty())
    seen.findings.push_back({Weight::kNote, "NotUsed",
                             "no CachePool of the namespace names the backend in backendRef", ""});
  std::ranges::stable_sort(seen.findings, {}, &Diagnostic::weight);
  return seen;
}

// "serves some": the operator or some pods have a problem, and other pods use the backend.
std::string backend_text(const BackendState& seen) {
  const char* verdict = seen.unusable()              ? "cannot be used"
                        : has_problem(seen.findings) ? "serves some"
                                                     : "serves";
  std::string text = "CacheBackend " + seen.ns + "/" + seen.name + " " + verdict +
                     (seen.server.empty() ? "" : ": " + seen.server) + ".\n";
  for (const Diagnostic& finding : seen.findings) text += finding_text(finding, 0);
  if (seen.pods.empty()) return text;
  std::vector<Row> rows{{"POD", "BACKEND", "STATE"}};
  for (const BackendOfPod& pod : seen.pods)
    if (rows.size() <= kMostRows)
      rows.push_back({pod.pod, pod.place.empty() ? "-" : pod.place,
                      pod.place.empty()    ? "none"
                      : pod.reason.empty() ? "serves"
                                           : pod.reason});
  text += "\n" + table_text(rows);
  if (seen.pods.size() > kMostRows)
    text += "and " + std::to_string(seen.pods.size() - kMostRows) + " more (-o json has all)\n";
  return text;
}

std::string backend_json(const BackendState& seen) {
  Object pods = Object::array();
  for (const BackendOfPod& pod : seen.pods)
    pods.push_back({{"pod", pod.pod},
                    {"backend", pod.place},
                    {"reason", pod.reason},
                    {"serving", pod.serving}});
  return json_text({{"namespace", seen.ns},
                    {"backend", seen.name},
                    {"usable", !seen.unusable()},
                    {"server", seen.server},
                    {"pools", seen.pools},
                    {"pods", pods},
                    {"findings", findings_json(seen.findings)}});
}

}  // namespace larder::kubectl
