#include "operator/reconcile/controller.h"

#include <chrono>
#include <exception>

#include "sidecar/base/log_throttle.h"

namespace larder::reconcile {
namespace {

// Names and help of controller-runtime, so that existing dashboards and alerts fit.
constexpr const char* kTotal = "controller_runtime_reconcile_total";
constexpr const char* kTotalHelp = "Total number of reconciliations per controller";

}  // namespace

Controller::Controller(std::string name, k8s::WorkQueue& queue, k8s::Metrics& metrics,
                       unsigned workers, Reconcile reconcile)
    : name_(std::move(name)),
      queue_(queue),
      reconcile_(std::move(reconcile)),
      succeeded_(
          metrics.counter(kTotal, kTotalHelp, {{"controller", name_}, {"result", "success"}})),
      failed_(metrics.counter(kTotal, kTotalHelp, {{"controller", name_}, {"result", "error"}})),
      again_(metrics.counter(kTotal, kTotalHelp,
                             {{"controller", name_}, {"result", "requeue_after"}})),
      errors_(metrics.counter("controller_runtime_reconcile_errors_total",
                              "Total number of reconciliation errors per controller",
                              {{"controller", name_}})),
      seconds_(metrics.histogram("controller_runtime_reconcile_time_seconds",
                                 "Length of time per reconciliation per controller",
                                 k8s::kTimeBuckets, {{"controller", name_}})),
      active_(metrics.gauge("controller_runtime_active_workers",
                            "Number of currently used workers per controller",
                            {{"controller", name_}})) {
  metrics
      .gauge("controller_runtime_max_concurrent_reconciles",
             "Maximum number of concurrent reconciles per controller", {{"controller", name_}})
      .set(workers);
  for (unsigned i = 0; i < workers; ++i)
    workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

Controller::~Controller() {
  // All workers stop together; the joins of ~jthread alone would stop one after the other.
  for (std::jthread& worker : workers_) worker.request_stop();
}

// A defect shows as a failed reconcile with a growing pause, and the other objects go on.
Done Controller::run(const k8s::Key& key, const std::stop_token& stop) {
  const auto began = std::chrono::steady_clock::now();
  active_.add(1);
  Done done;
  try {
    done = reconcile_(key, stop);
  } catch (const std::exception& error) {  // one bad object must not end the worker of all
    done.status = {Code::kInternal, error.what()};
  }
  active_.add(-1);
  seconds_.observe(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return done;
}

void Controller::work(const std::stop_token& stop) {
  while (const std::optional<k8s::Key> key = queue_.take(stop)) {
    // A reconcile gets a name and reads everything else, so the operator may repeat or lose any
    // call. One worker at a time works on a name (queue_order.h).
    const Done done = run(*key, stop);
    if (!done.status.ok()) {
      failed_.add();
      errors_.add();
      // Throttled by controller and object: a retry every few milliseconds would fill the log.
      base::log_refusal(name_ + " " + key->ns + "/" + key->name, done.status.to_string(),
                        base::LogLevel::kWarning, "reconcile failed: " + done.status.to_string(),
                        {{"controller", name_}, {"namespace", key->ns}, {"name", key->name}});
      queue_.retry(*key);
      continue;
    }
    queue_.done(*key);
    (done.again.count() > 0 ? again_ : succeeded_).add();
    if (done.again.count() > 0) queue_.add_after(*key, done.again);
  }
}

}  // namespace larder::reconcile
