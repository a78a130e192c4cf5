// LeaderComponents: what the leader alone runs: it watches pods and what it made, reconciles pools and backends, and asks larderd how it is.
//
// From its making to its end, on threads of its own. Thread-compatible.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>

#include "operator/app/informers.h"
#include "operator/k8s/event_recorder.h"
#include "operator/k8s/metrics.h"
#include "operator/k8s/work_queue.h"
#include "operator/reconcile/backend_reconciler.h"
#include "operator/reconcile/controller.h"
#include "operator/reconcile/pool_metrics.h"
#include "operator/reconcile/pool_reconciler.h"
#include "operator/reconcile/prober.h"

namespace larder::app {

class LeaderComponents {
 public:
  static constexpr unsigned kPoolWorkers = 4, kBackendWorkers = 4;

  // `reader` has no fence, `writer` refuses writes of who does not lead, Events among them. `identity`: this replica. All outlives it. It begins to
  // reconcile when all is known.
  LeaderComponents(k8s::ApiClient& reader, k8s::ApiClient& writer, Informers& watched, const desired::Defaults& defaults,
                   const std::string& identity, k8s::Metrics& metrics, const base::Clock& clock);
  // Waits for the reconciles under way, which end soon but for their calls of the API server.
  ~LeaderComponents();

 private:
  void begin(const std::stop_token& stop, k8s::Metrics& metrics);
  bool await_all(const std::stop_token& stop);
  void follow(k8s::ApiClient& reader, const k8s::Resource& resource, const std::string& labels);
  void pool_or_backend_changed(const k8s::Resource& resource, const k8s::ObjectPtr& before, const k8s::ObjectPtr& after);
  void pod_changed(const api::Object& pod);
  void child_changed(const api::Object& child);
  void add_everything();
  std::vector<reconcile::Prober::Target> targets() const;

  Informers& watched_;
  const base::Clock& clock_;
  k8s::EventRecorder events_;
  std::unique_ptr<k8s::WorkQueue> pool_queue_, backend_queue_;
  std::map<std::string, std::unique_ptr<k8s::Informer>> informers_;  // by plural
  std::unique_ptr<reconcile::Context> world_;
  reconcile::PoolMetrics pool_metrics_;
  std::unique_ptr<reconcile::BackendCheck> check_;
  std::unique_ptr<reconcile::Prober> prober_;
  std::unique_ptr<reconcile::PoolReconciler> pools_;
  std::unique_ptr<reconcile::BackendReconciler> backends_;
  std::unique_ptr<reconcile::Controller> pool_controller_, backend_controller_;
  std::jthread beginning_;  // ends first
};

}  // namespace larder::app
