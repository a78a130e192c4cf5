// Cluster: what `kubectl larder` reads of a cluster, as values, through the user's kubectl. It changes nothing. Thread-safe.
//
// Namespaces and names given to it go into paths: REQUIRES is_name() of each.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/object.h"
#include "operator/kubectl/kubectl.h"
#include "operator/kubectl/pod_state.h"
#include "operator/kubectl/trial.h"
#include "sidecar/ctl/snapshot.h"

namespace larder::kubectl {

// Whether it may be the name of an object of Kubernetes.
bool is_name(std::string_view text);

class Cluster {
 public:
  static constexpr std::size_t kMostPods = 20'000;
  static constexpr std::size_t kMostAnswerBytes = 1u << 20;  // of a larderd: as the operator bounds it

  explicit Cluster(const Kubectl& kubectl) : kubectl_(kubectl) {}

  // The namespace of the user's context.
  Result<std::string> current_namespace() const;

  // `kind` as kubectl takes it: "cachepool", "mutatingwebhookconfiguration".
  Result<api::Object> object(const std::string& kind, const std::string& ns, const std::string& name) const;
  // The items of a list; `ns` empty: of all namespaces. `which`: "--selector=...". kNotFound: the kind is not installed.
  Result<std::vector<api::Object>> objects(const std::string& kind, const std::string& ns, const std::string& which = "") const;

  // Every pod of the namespace (empty: of all), page by page. `labels`: a selector, or empty.
  Result<std::vector<PodState>> pods(const std::string& ns, const std::string& labels = "") const;
  Result<PodState> pod(const std::string& ns, const std::string& name) const;

  // What the larderd of each pod says of itself, in their order, through the API server (pods/proxy). Not asked where none answers.
  std::vector<Result<ctl::Snapshot>> larderds(const std::vector<PodState>& pods) const;

  // Has larderctl run with these words beside the larderd of the pod; what it says goes to the user.
  Status run_larderctl(const PodState& larderd, const std::vector<std::string>& words, std::chrono::milliseconds deadline) const;

  // See trial.h.
  std::vector<Trial> try_pods(const std::vector<api::Object>& pods) const { return kubectl::try_pods(kubectl_, pods); }
  Result<GivenObjects> objects_of_files(const Words& options) const { return kubectl::objects_of_files(kubectl_, options); }

  // The first MiBs of a container's log.
  Result<std::string> log(const PodState& pod, const std::string& container) const;

 private:
  Result<api::Object> parsed(const Words& words) const;

  const Kubectl& kubectl_;
};

}  // namespace larder::kubectl
