// LeaderComponents: the parts that only the leader runs. They watch pods and the operator's
// objects, reconcile pools and backends, and ask each larderd for its status.
//
// Runs on its own threads from construction to destruction. A replica that loses the lease destroys
// the object and makes a new one when the replica leads again. Thread-compatible.
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

  // The parts that every replica has. All outlive the object.
  struct Replica {
    k8s::ApiClient& reader;  // without a fence
    k8s::ApiClient& writer;  // refuses all writes, Events too, unless this replica holds the lease
    Informers& informers;
    const desired::Defaults& defaults;
    const std::string& identity;  // of this replica
    k8s::Metrics& metrics;
    const base::Clock& clock;
  };

  // Reconciles begin when every informer is synced.
  explicit LeaderComponents(const Replica& replica);
  // Waits for running reconciles, at most for the deadlines of their calls.
  ~LeaderComponents();

 private:
  void begin(const std::stop_token& stop, k8s::Metrics& metrics);
  bool await_all(const std::stop_token& stop);
  void follow(k8s::ApiClient& reader, const k8s::Resource& resource, const std::string& labels);
  void pool_or_backend_changed(const k8s::Resource& resource, const k8s::ObjectPtr& before,
                               const k8s::ObjectPtr& after);
  void pod_changed(const api::Object& pod);
  void child_changed(const api::Object& child);
  void policy_changed(const api::Object& policy);
  void add_everything();
  std::vector<reconcile::Prober::Target> targets() const;

  Informers& shared_informers_;
  const base::Clock& clock_;
  k8s::EventRecorder events_;
  std::unique_ptr<k8s::WorkQueue> pool_queue_, backend_queue_;
  std::map<std::string, std::unique_ptr<k8s::Informer>> informers_;  // key: plural of the resource
  std::unique_ptr<reconcile::Context> context_;
  reconcile::PoolMetrics pool_metrics_;
  std::unique_ptr<reconcile::BackendCheck> check_;
  std::unique_ptr<reconcile::Prober> prober_;
  std::unique_ptr<reconcile::PoolReconciler> pools_;
  std::unique_ptr<reconcile::BackendReconciler> backends_;
  std::unique_ptr<reconcile::Controller> pool_controller_, backend_controller_;
  std::jthread beginning_;  // ends first
};

}  // namespace larder::app
