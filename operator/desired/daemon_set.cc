#include "operator/api/names.h"
#include "operator/desired/object_head.h"
#include "operator/desired/peer_objects.h"
#include "operator/desired/plugin.h"
#include "operator/desired/pool_objects.h"
#include "operator/desired/set_if.h"

namespace larder::desired {
namespace {

using api::CacheBackend;
using api::CachePool;
using api::Object;

constexpr int kGraceSeconds = 30;  // larderd writes chunks that only memory has to disk or backend
// Each old revision is an object of the API server (ControllerRevision).
constexpr int kRevisions = 3;

Object pod_spec(const CachePool& pool, const std::optional<CacheBackend>& backend,
                const Defaults& defaults) {
  const api::NodeSpec& node = pool.spec.node;
  // larderd does not speak to the API server, so its pod gets no token. Without service links, the
  // variables of every Service of the namespace stay out of the container.
  Object spec{{"automountServiceAccountToken", false},
              {"enableServiceLinks", false},
              {"terminationGracePeriodSeconds", kGraceSeconds},
              {"initContainers", Object::array({folders_container(pool, defaults)})},
              {"containers", Object::array({larderd_container(pool, backend, defaults)})},
              {"volumes", larderd_volumes(pool, backend)}};
  // A normal container: larderd starts and ends without the plug-in.
  if (std::optional<Object> plugin = plugin_container(pool, backend, defaults))
    spec["containers"].push_back(*std::move(plugin));
  set_if(spec, "imagePullSecrets", pull_secrets(pool.spec.pull_secrets, defaults));
  set_if(spec, "nodeSelector", node.node_selector);
  set_if(spec, "tolerations", node.tolerations);
  set_if(spec, "affinity", node.affinity);
  set_if(spec, "priorityClassName", node.priority_class);
  if (!pool.spec.runtime_class.empty()) spec["runtimeClassName"] = pool.spec.runtime_class;
  return spec;
}

// One node after the other: memory stays in the node's folder, and the engines run without a cache
// meanwhile. maxSurge is 0, since two larderd of one pool on a node would open the same files.
Object update_strategy(const CachePool& pool) {
  Object strategy{{"type", "RollingUpdate"}};
  if (pool.spec.node.update_strategy.is_object()) strategy.update(pool.spec.node.update_strategy);
  if (strategy["type"] != "RollingUpdate") return Object{{"type", strategy["type"]}};
  const Object& given = api::at(strategy, "rollingUpdate.maxUnavailable");
  const Object most = given.is_null() ? Object(1) : given;
  strategy["rollingUpdate"] = Object{{"maxUnavailable", most}, {"maxSurge", 0}};
  return strategy;
}

}  // namespace

Object daemon_set(const CachePool& pool, const std::optional<CacheBackend>& backend,
                  const Defaults& defaults) {
  const Object labels = pod_labels(pool);
  // The hash rolls the pods. A running larderd takes over every other change from the ConfigMap.
  Object annotations{{std::string(api::kRestartAnnotation), restart_hash(pool, backend, defaults)}};
  Object template_labels = labels;
  if (pool.spec.peers) template_labels.update(peers_labels(pool));
  template_labels.update(plugin_labels(backend));
  Object set = object_head("apps/v1", "DaemonSet", pool);
  set["spec"] =
      Object{{"revisionHistoryLimit", kRevisions},
             {"selector", {{"matchLabels", labels}}},
             {"updateStrategy", update_strategy(pool)},
             {"template",
              {{"metadata", {{"labels", template_labels}, {"annotations", std::move(annotations)}}},
               {"spec", pod_spec(pool, backend, defaults)}}}};
  return set;
}

// All nodes at once: the deleted pool has no engines to keep a cache for, and a user waits.
Object freeing_daemon_set(const CachePool& pool, const Defaults& defaults) {
  Object set = daemon_set(pool, std::nullopt, defaults);
  set["spec"]["updateStrategy"] = Object{
      {"type", "RollingUpdate"}, {"rollingUpdate", {{"maxUnavailable", "100%"}, {"maxSurge", 0}}}};
  Object& pod = set["spec"]["template"];
  pod["metadata"]["annotations"][std::string(api::kRestartAnnotation)] = kFreeing;
  pod["spec"]["containers"] = Object::array({freeing_container(pool, defaults)});
  return set;
}

}  // namespace larder::desired
