#include "operator/reconcile/pod_view.h"

#include <algorithm>
#include <array>

#include "operator/api/names.h"

namespace larder::reconcile {
namespace {

using api::Object;

constexpr std::array kAnnotations{api::kPoolAnnotation, api::kInjectedAnnotation,
                                  api::kConfigAnnotation, api::kRestartAnnotation,
                                  api::kNoticeAnnotation};
// A native sidecar has its status among those of init containers; before Kubernetes 1.29 larderd is
// a normal container.
constexpr std::array kStatuses{"status.initContainerStatuses", "status.containerStatuses"};
constexpr std::array kContainers{"spec.initContainers", "spec.containers"};

bool is_larderd(const Object& container) {
  return api::text_at(container, "name") == api::kSidecarContainer;
}

// Containers of Larder. A pod may have other containers that wait, which are no affair of the pool.
bool is_ours(const Object& container) {
  const std::string name = api::text_at(container, "name");
  return name == api::kFoldersContainer || api::is_injected(name);
}

// The status of larderd's container. A native sidecar is an init container. Null: no status yet.
const Object& larderd_status(const Object& pod) {
  static const Object kNone;
  for (const char* list : kStatuses)
    for (const Object& status : api::at(pod, list))
      if (is_larderd(status)) return status;
  return kNone;
}

// Why larderd's container does not run: the state of the first waiting container of Larder. Ignores
// a container under creation and one that waits for an earlier container.
Object waiting_state(const Object& pod) {
  for (const char* list : kStatuses)
    for (const Object& status : api::at(pod, list)) {
      const std::string reason = api::text_at(status, "state.waiting.reason");
      if (!is_ours(status) || reason.empty() || reason == "PodInitializing" ||
          reason == "ContainerCreating")
        continue;
      // A container that fails repeatedly has a message. For larderd, the supervisor knows more.
      const std::string last =
          // The message of a failed container is the end of its log (FallbackToLogsOnError in
          // desired/container.cc).
          is_larderd(status) ? "" : api::text_at(status, "lastState.terminated.message");
      return {{"reason", reason},
              {"container", api::text_at(status, "name")},
              {"message", last.empty() ? api::text_at(status, "state.waiting.message") : last}};
    }
  return Object::object();
}

bool has_larderd(const Object& pod) {
  for (const char* list : kContainers)
    for (const Object& container : api::at(pod, list))
      if (is_larderd(container)) return true;
  return false;
}

// Ports for the peers of a pool, or of a plug-in (desired/port_guard.h).
bool has_guarded_ports(const Object& pod) {
  return api::label(pod, api::kPeersLabel) ||
         std::ranges::any_of(api::kPlugins, [&pod](const api::Plugin& plugin) {
           return plugin.listens() && api::label(pod, plugin.label);
         });
}

// The scheduler's own message, for example "0/3 nodes are available: 3 Insufficient memory".
std::string why_unscheduled(const Object& pod) {
  for (const Object& condition : api::at(pod, "status.conditions"))
    if (api::text_at(condition, "type") == "PodScheduled" &&
        api::text_at(condition, "status") == "False")
      return api::text_at(condition, "message");
  return "";
}

// The reason and message of a container's state.
// The states have timestamps and ids, which change without meaning for the pool. Without them,
// equal pods stay equal and wake no reconcile.
Object trimmed_state(const Object& state) {
  Object kept = Object::object();
  for (const char* which : {"waiting", "terminated"})
    for (const char* field : {"reason", "message"})
      if (const std::string text = api::text_at(state, std::string(which) + "." + field);
          !text.empty())
        kept[which][field] = text;
  if (const Object& code = api::at(state, "terminated.exitCode"); code.is_number_integer())
    kept["terminated"]["exitCode"] = code;
  return kept;
}

Object trimmed_container(const Object& status) {
  Object kept = {{"name", status["name"]}};
  for (const char* key : {"ready", "restartCount"})
    if (status.contains(key)) kept[key] = status[key];
  for (const char* key : {"state", "lastState"})
    if (Object state = trimmed_state(api::at(status, key)); !state.empty())
      kept[key] = std::move(state);
  return kept;
}

}  // namespace

// Reads trimmed pods and whole ones alike: kubectl larder passes whole pods.
PodView view_of(const Object& pod) {
  const Object& larderd = larderd_status(pod);
  const std::string phase = api::text_at(pod, "status.phase");
  PodView view;
  view.ns = api::namespace_of(pod);
  view.name = api::name_of(pod);
  view.uid = api::text_at(pod, "metadata.uid");
  view.pool = api::label(pod, api::kPoolLabel).value_or("");
  view.node = api::text_at(pod, "spec.nodeName");
  view.ip = api::text_at(pod, "status.podIP");
  view.has_larderd = has_larderd(pod);
  view.injected = api::annotation(pod, api::kInjectedAnnotation).has_value();
  view.running = phase == "Running";
  view.ready = view.running && api::truth_at(larderd, "ready");
  // A pod under deletion serves no new requests, and its larderd counts no more.
  view.over = phase == "Succeeded" || phase == "Failed" ||
              !api::text_at(pod, "metadata.deletionTimestamp").empty();
  view.host_network = api::truth_at(pod, "spec.hostNetwork");
  if (has_guarded_ports(pod)) view.labels = api::at(pod, "metadata.labels");
  view.config = api::annotation(pod, api::kConfigAnnotation).value_or("");
  view.restart_hash = api::annotation(pod, api::kRestartAnnotation).value_or("");
  view.notice = api::annotation(pod, api::kNoticeAnnotation).value_or("");
  view.unscheduled = why_unscheduled(pod);
  const Object waiting = waiting_state(pod);
  view.waiting = api::text_at(waiting, "reason");
  view.waiting_text = api::text_at(waiting, "message");
  view.waiting_container = api::text_at(waiting, "container");
  // The kubelet moves the state of an ended container to lastState when the next one starts.
  view.killed_for_memory = api::text_at(larderd, "state.terminated.reason") == "OOMKilled" ||
                           api::text_at(larderd, "lastState.terminated.reason") == "OOMKilled";
  view.completed = api::number_at(larderd, "state.terminated.exitCode", -1) == 0 ||
                   api::number_at(larderd, "lastState.terminated.exitCode", -1) == 0;
  view.restarts = api::number_at(larderd, "restartCount");
  return view;
}

// The cache of a large cluster holds thousands of pods: only the fields of view_of() stay.
void trim_pod(Object& pod) {
  Object kept = {{"apiVersion", "v1"}, {"kind", "Pod"}};
  Object& metadata = kept["metadata"];
  for (const char* key : {"name", "namespace", "uid", "deletionTimestamp"})
    if (const Object& value = api::at(pod, std::string("metadata.") + key); !value.is_null())
      metadata[key] = value;
  if (const auto pool = api::label(pod, api::kPoolLabel))
    metadata["labels"][std::string(api::kPoolLabel)] = *pool;
  // NetworkPolicies select pods with guarded ports by any label.
  if (has_guarded_ports(pod)) metadata["labels"] = api::at(pod, "metadata.labels");
  for (const std::string_view key : kAnnotations)
    if (const auto value = api::annotation(pod, key))
      metadata["annotations"][std::string(key)] = *value;
  if (api::truth_at(pod, "spec.hostNetwork")) kept["spec"]["hostNetwork"] = true;
  if (const std::string node = api::text_at(pod, "spec.nodeName"); !node.empty())
    kept["spec"]["nodeName"] = node;
  // trim_pod() keeps one container as a mark that larderd is there.
  if (has_larderd(pod)) kept["spec"]["containers"] = {{{"name", api::kSidecarContainer}}};

  Object& status = kept["status"];
  for (const char* key : {"phase", "podIP"})
    if (const Object& value = api::at(pod, std::string("status.") + key); value.is_string())
      status[key] = value;
  if (const std::string why = why_unscheduled(pod); !why.empty())
    status["conditions"] = {{{"type", "PodScheduled"}, {"status", "False"}, {"message", why}}};
  for (const char* list : kStatuses)
    for (const Object& container : api::at(pod, list))
      if (is_ours(container)) status["containerStatuses"].push_back(trimmed_container(container));
  pod = std::move(kept);
}

}  // namespace larder::reconcile
