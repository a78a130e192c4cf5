// BackendReconciler: brings one CacheBackend to the wanted state: the server of a managed backend,
// the check of the servers, the status.
//
// The order of a reconcile: observe, apply_objects, observe_applied, status.
// Level-based. Checks a backend every kCheckMs. Takes up to 20 s, or until the stop. Thread-safe
// for different names.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/k8s/work_queue.h"
#include "operator/reconcile/backend_facts.h"
#include "operator/reconcile/context.h"
#include "operator/reconcile/larderd_answer.h"
#include "operator/reconcile/pod_view.h"

namespace larder::reconcile {

class BackendReconciler {
 public:
  using Answers = std::function<std::map<std::string, LarderdAnswer>(
      const std::vector<PodView>&)>;  // Prober::answers
  static constexpr unsigned kCheckMs = 30'000;

  BackendReconciler(const Context& context, BackendCheck& check, Answers answers);
  Done reconcile(const k8s::Key& key, const std::stop_token& stop);

 private:
  // Only reads. Without a usable spec, only the fault of the spec is set.
  BackendFacts observe(const api::Object& object) const;
  // Applies the objects of a managed backend, and deletes those of an earlier spec.
  void apply_objects(BackendFacts& facts) const;
  // Reads the server's StatefulSet after apply_objects(), and checks the servers.
  void observe_applied(BackendFacts& facts, const std::stop_token& stop);
  std::vector<api::CachePool> pools_of(const k8s::Key& key) const;
  SidecarsView sidecars_of(const k8s::Key& key) const;

  const Context& context_;
  BackendCheck& check_;
  const Answers answers_;
};

}  // namespace larder::reconcile
