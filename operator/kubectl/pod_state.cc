#include "operator/kubectl/pod_state.h"

#include "operator/api/names.h"
#include "operator/kubectl/printable_text.h"
#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using api::Object;

bool has_container(const Object& pod, const char* list, std::string_view name) {
  for (const Object& container : api::at(pod, list))
    if (api::text_at(container, "name") == name) return true;
  return false;
}

const Object& status_of(const Object& pod, const std::string& name) {
  static const Object kNone;
  for (const Object& status : api::at(pod, "status.containerStatuses"))
    if (api::text_at(status, "name") == name) return status;
  return kNone;
}

// Containers of the pod beside larderd: any of them may be the engine.
std::vector<ContainerState> containers_of(const Object& pod) {
  std::vector<ContainerState> seen;
  for (const Object& container : api::at(pod, "spec.containers")) {
    const std::string name = api::text_at(container, "name");
    // PodView has the state of Larder's own containers.
    if (api::is_injected(name)) continue;
    const Object& status = status_of(pod, name);
    seen.push_back({base::printable(name), api::truth_at(status, "ready"),
                    api::number_at(status, "restartCount"),
                    printable_text(status, "state.waiting.reason"),
                    printable_text(status, "state.waiting.message"),
                    printable_text(status, "state.running.startedAt")});
  }
  return seen;
}

// Texts of the cluster may hold escape sequences for the user's terminal.
void make_printable(reconcile::PodView& view) {
  for (std::string* field : {&view.unscheduled, &view.waiting, &view.waiting_text, &view.pool})
    *field = base::printable(*field);
}

}  // namespace

// The admin socket is in larderd's container only, at the path of desired/paths.h.
std::vector<std::string> PodState::exec_larderctl(const std::vector<std::string>& words) const {
  std::vector<std::string> all{"exec",     view.name,
                               "-n",       view.ns,
                               "-c",       std::string(api::kSidecarContainer),
                               "--",       "larderctl",
                               "--socket", "/run/larder/" + view.pool + ".admin"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

// A command for users whose access ends at pods/proxy.
std::string PodState::ask_by_hand() const {
  std::string text = "kubectl";
  for (const std::string& word : exec_larderctl({"status"})) text += " " + word;
  return text;
}

// The same function reads pods of a list and pods of a dry run, which have no status.
PodState pod_seen(const Object& pod) {
  PodState seen;
  seen.view = reconcile::view_of(pod);
  make_printable(seen.view);
  seen.created = printable_text(pod, "metadata.creationTimestamp");
  seen.node = printable_text(pod, "spec.nodeName");
  seen.phase = printable_text(pod, "status.phase");
  if (const auto pool = api::annotation(pod, api::kPoolAnnotation))
    seen.wanted_pool = base::printable(*pool);
  const auto by = api::annotation(pod, api::kInjectedAnnotation);  // VERSION/POOL
  // A pod whose namespace asked has no annotation of its own.
  if (!seen.wanted_pool && by && by->find('/') != std::string::npos)
    seen.wanted_pool = base::printable(by->substr(by->find('/') + 1));
  // A declined pod may carry the annotation of its template; the refusal wins.
  seen.declined = !by && api::annotation(pod, api::kInjectAnnotation) == "false";
  if (seen.declined) seen.wanted_pool.reset();
  seen.injected_by = base::printable(by.value_or(""));
  // A user may copy the annotation into a template by hand: only the container proves the
  // injection.
  seen.injected = by ? has_container(pod, "spec.initContainers", api::kPayloadContainer)
                     : seen.is_node_larderd();
  seen.not_injected =
      base::printable(api::annotation(pod, api::kNotInjectedAnnotation).value_or(""));
  seen.is_static = api::annotation(pod, "kubernetes.io/config.mirror").has_value();
  // Only the controller: other owners do not create the pod.
  for (const Object& owner : api::at(pod, "metadata.ownerReferences")) {
    if (!api::truth_at(owner, "controller")) continue;
    seen.owner_kind = printable_text(owner, "kind");
    seen.owner_name = printable_text(owner, "name");
  }
  seen.containers = containers_of(pod);
  return seen;
}

}  // namespace larder::kubectl
