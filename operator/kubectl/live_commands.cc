// The commands that ask every larderd of a pool or backend: top, backend check.
#include <algorithm>
#include <chrono>
#include <thread>

#include "operator/api/names.h"
#include "operator/kubectl/backend_state.h"
#include "operator/kubectl/plugin_commands.h"
#include "operator/kubectl/pool_state.h"
#include "operator/kubectl/pool_top.h"
#include "operator/kubectl/scope.h"
#include "sidecar/ctl/terminal.h"

namespace larder::kubectl {
namespace {

using ctl::Outcome;

constexpr int kExitWarnings = 1, kExitUnusable = 2;

// Pods with the operator's label; empty `pools`: of every pool.
// A set-based selector ("in") asks for several pools in one request.
std::string of_pools(const std::vector<std::string>& pools) {
  if (pools.empty()) return std::string(api::kPoolLabel);
  std::string list;
  for (const std::string& pool : pools) list += (list.empty() ? "" : ",") + pool;
  return std::string(api::kPoolLabel) + " in (" + list + ")";
}

}  // namespace

// top has no end of its own; Ctrl-C ends it.
Result<Outcome> top_of_pools(const Arguments& arguments, const Cluster& cluster) {
  if (arguments.json)
    return Status(Code::kInvalidArgument,
                  "top has no JSON; kubectl larder pods -o json has the same figures");
  const Result<std::string> ns = wanted_namespace(arguments, cluster);
  if (!ns.ok()) return ns.status();
  const std::vector<std::string> pools(arguments.words.begin() + 1, arguments.words.end());
  const auto interval = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(arguments.interval_seconds));
  ctl::Terminal terminal(arguments.iterations == 0);
  SnapshotsByUid before;
  for (std::uint64_t shown = 0;; ++shown) {
    const bool baseline =
        arguments.iterations != 0 && shown == 0;  // so that the first screen has rates
    Result<std::vector<PodState>> pods = cluster.pods(*ns, of_pools(pools));
    // A live screen survives an outage of the API server;
    // a script with --iterations gets the error.
    if (!pods.ok() && (arguments.iterations != 0 || before.empty())) return pods.status();
    if (pods.ok()) {
      const Fleet fleet(cluster, *std::move(pods), most_asked(arguments));
      if (!baseline) terminal.show(pool_top(fleet, before));
      before = answers_of(fleet);
    } else {
      terminal.show("waiting for the cluster: " + pods.status().text() + "\n");
    }
    if (arguments.iterations != 0 && shown == arguments.iterations) return Outcome{};
    std::this_thread::sleep_for(interval);
  }
}

// The verdict of the operator and the words of every larderd of the pools that use the backend.
Result<Outcome> check_backend(const Arguments& arguments, const Cluster& cluster) {
  if (arguments.words[1] != "check")
    return Status(
        Code::kInvalidArgument,
        "'" + arguments.words[1] + "' is not a command of backend: write backend check NAME");
  const Result<std::string> ns = one_namespace(arguments, cluster);
  if (!ns.ok()) return ns.status();
  const std::string& name = arguments.words[2];
  const Result<api::Object> backend =
      cluster.object("cachebackends." + std::string(api::kGroup), *ns, name);
  if (!backend.ok()) return backend.status();
  const Result<std::vector<api::Object>> objects =
      cluster.objects("cachepools." + std::string(api::kGroup), *ns);
  if (!objects.ok()) return objects.status();
  std::vector<std::string> pools;
  for (const api::Object& object : *objects)
    if (const PoolState pool = pool_seen(object); pool.backend == name) pools.push_back(pool.name);
  std::vector<BackendOfPod> said;
  if (!pools.empty()) {
    Result<std::vector<PodState>> pods = cluster.pods(*ns, of_pools(pools));
    if (!pods.ok()) return pods.status();
    const Fleet fleet(cluster, *std::move(pods), most_asked(arguments));
    for (const PodState& pod : fleet.pods())
      if (const ctl::Snapshot* now = fleet.answer_of(pod))
        said.push_back(
            {pod.view.name, now->backend.place, now->backend.reason, now->backend.serving});
  }
  const BackendState seen = backend_seen(*backend, std::move(pools), std::move(said));
  const bool warned = std::ranges::any_of(seen.findings, [](const Diagnostic& finding) {
    return finding.weight != Diagnostic::Weight::kNote;
  });
  // The exit statuses are those of larderctl backend check.
  return Outcome{arguments.json ? backend_json(seen) : backend_text(seen), seen.unusable()
                                                                               ? kExitUnusable
                                                                           : warned ? kExitWarnings
                                                                                    : 0};
}

}  // namespace larder::kubectl
