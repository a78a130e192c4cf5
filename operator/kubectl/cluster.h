// Cluster: reads the cluster through the user's kubectl and returns values. Changes no object.
// Thread-safe.
//
// REQUIRES: is_name() of each namespace and name, since both become parts of paths.
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

// Whether a text may be the name of a Kubernetes object.
bool is_name(std::string_view text);

class Cluster {
 public:
  static constexpr std::size_t kMostPods = 20'000;
  static constexpr std::size_t kMostAnswerBytes = 1u << 20;  // of a larderd, as in the operator

  explicit Cluster(const Kubectl& kubectl) : kubectl_(kubectl) {}

  // The namespace of the user's context.
  Result<std::string> current_namespace() const;

  // `kind` in kubectl's form: "cachepool", "mutatingwebhookconfiguration".
  Result<api::Object> object(const std::string& kind, const std::string& ns,
                             const std::string& name) const;
  // The items of a list. Empty `ns`: all namespaces. `which`: "--selector=...". kNotFound: the kind
  // is not installed.
  Result<std::vector<api::Object>> objects(const std::string& kind, const std::string& ns,
                                           const std::string& which = "") const;

  // All pods of a namespace (empty: of all), read page by page. `labels`: a selector, or empty.
  Result<std::vector<PodState>> pods(const std::string& ns, const std::string& labels = "") const;
  Result<PodState> pod(const std::string& ns, const std::string& name) const;

  // The status of each pod's larderd, in the order of `pods`, through the API server (pods/proxy).
  // Does not ask pods whose larderd cannot answer.
  std::vector<Result<ctl::Snapshot>> larderds(const std::vector<PodState>& pods) const;

  // Runs larderctl with these words beside the pod's larderd; the user sees the output.
  Status run_larderctl(const PodState& larderd, const std::vector<std::string>& words,
                       std::chrono::milliseconds deadline) const;

  // See trial.h.
  std::vector<Trial> try_pods(const std::vector<api::Object>& pods) const {
    return kubectl::try_pods(kubectl_, pods);
  }
  Result<GivenObjects> objects_of_files(const Words& options) const {
    return kubectl::objects_of_files(kubectl_, options);
  }

  // The first 4 MiB of a container's log.
  Result<std::string> log(const PodState& pod, const std::string& container) const;

 private:
  Result<api::Object> parsed(const Words& words) const;

  const Kubectl& kubectl_;
};

}  // namespace larder::kubectl
