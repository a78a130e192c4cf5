#include "operator/k8s/leader_election.h"

#include <algorithm>

#include "sidecar/base/log_throttle.h"
#include "sidecar/base/nap.h"

namespace larder::k8s {
namespace {

// A client with write access to the Lease can change the holder again and again. Each text is
// logged once, then as a count once a minute.
void log_once_a_minute(base::LogLevel level, const std::string& text, base::LogFields fields) {
  base::log_refusal("lease", text, level, text, fields);
}

}  // namespace

LeaderElection::LeaderElection(ApiClient& client, LeaseOptions options,
                               const base::Clock& monotonic, const base::Clock& boottime,
                               Metrics& metrics, std::function<void(bool leads)> changed)
    : name_(options.ns + "/" + options.name),
      lease_(client, std::move(options), monotonic, boottime),
      status_(metrics.gauge("leader_election_master_status",
                            "Gauge of if the reporting system is master of the relevant lease, 0 "
                            "indicates backup, 1 indicates master. "
                            "'name' is the string used to identify the lease.",
                            {{"name", name_.substr(name_.find('/') + 1)}})),
      changed_(std::move(changed)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

LeaderElection::~LeaderElection() = default;

// Only changes are reported: a step every two seconds must not restart the leader's parts.
void LeaderElection::tell(bool leads) {
  if (leads == reported_) return;
  reported_ = leads;
  status_.set(leads ? 1 : 0);
  log_once_a_minute(
      base::LogLevel::kInfo,
      leads ? "this replica leads" : "this replica no longer leads and makes no writes",
      {{"lease", name_}});
  changed_(leads);
}

void LeaderElection::run(const std::stop_token& stop) {
  std::string holder;
  while (!stop.stop_requested()) {
    const LeaderLease::Step step = lease_.step();
    if (!step.status.ok())
      log_once_a_minute(base::LogLevel::kWarning, "leader election: " + step.status.to_string(),
                        {{"lease", name_}});
    // Throttled lines of all sources get their counts here, since this thread wakes every few
    // seconds.
    base::tell_left_out();
    if (lease_.holder() != holder) {
      holder = lease_.holder();
      log_once_a_minute(base::LogLevel::kInfo, "leader election: the lease's holder has changed",
                        {{"lease", name_}, {"holder", holder}});
    }
    tell(lease_.held());
    // During errors, report the end of the lease at its time and not at the next try.
    std::uint64_t wait_ms = step.again_ms;
    if (lease_.held()) wait_ms = std::min(wait_ms, lease_.left_ms());
    base::nap(std::chrono::milliseconds(wait_ms), stop);
    // The lease may have ended during the nap, without a step.
    if (reported_ && !lease_.held()) tell(false);
  }
  // A released lease lets another replica lead at once. After a crash, the other replica waits for
  // the duration of the lease (F-246).
  if (Status status = lease_.release(); !status.ok())
    log_once_a_minute(base::LogLevel::kWarning, "leader election: " + status.to_string(),
                      {{"lease", name_}});
  tell(false);
}

}  // namespace larder::k8s
