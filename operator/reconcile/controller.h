// Controller: workers that take names from a queue and reconcile them. A failed name returns with a
// backoff.
//
// The metrics are those of controller-runtime. Owns its threads; thread-safe.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "operator/k8s/metrics.h"
#include "operator/k8s/work_queue.h"
#include "operator/reconcile/context.h"

namespace larder::reconcile {

class Controller {
 public:
  // `stop`: the controller ends and waits for the reconcile.
  using Reconcile = std::function<Done(const k8s::Key&, const std::stop_token& stop)>;

  // `name`: label of metrics and logs. `queue` and `metrics` outlive the controller.
  Controller(std::string name, k8s::WorkQueue& queue, k8s::Metrics& metrics, unsigned workers,
             Reconcile reconcile);
  // Requests the stop of running reconciles and waits for their end.
  ~Controller();

 private:
  void work(const std::stop_token& stop);
  // One measured reconcile. An exception counts as a failure.
  Done run(const k8s::Key& key, const std::stop_token& stop);

  const std::string name_;
  k8s::WorkQueue& queue_;
  const Reconcile reconcile_;
  k8s::Counter &succeeded_, &failed_, &again_, &errors_;
  k8s::Histogram& seconds_;
  k8s::Gauge& active_;
  std::vector<std::jthread> workers_;
};

}  // namespace larder::reconcile
