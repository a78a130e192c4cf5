// Prober: asks every larderd for its status in rounds and keeps the newest answer. Asks the
// supervisor of a silent larderd for the reason.
//
// One thread. Fetch bounds a round, and the next round begins kRoundMs after the start of the last.
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "operator/k8s/work_queue.h"
#include "operator/reconcile/fetch.h"
#include "operator/reconcile/larderd_answer.h"
#include "operator/reconcile/pod_view.h"

namespace larder::reconcile {

class Prober {
 public:
  static constexpr unsigned kRoundMs = 30'000;
  static constexpr unsigned kMissesForgotten = 3;  // silent rounds until the last answer expires

  struct Target {
    k8s::Key pool;
    std::string uid, url;
    std::string supervisor_url = {};  // asked if `url` is silent; empty: no supervisor
  };

  // `targets` returns the pods of a round. `on_answers` gets each pool with asked pods, on the
  // prober's thread.
  Prober(std::unique_ptr<Fetch> fetch, std::function<std::vector<Target>()> targets,
         std::function<void(const k8s::Key&)> on_answers, unsigned round_ms = kRoundMs);
  ~Prober();

  // The last answers of these pods.
  Heard heard(const std::vector<PodView>& pods) const;

  // The pod's larderd: http://10.0.0.7:9464/v1/status, http://[fd00::7]:9464/v1/status.
  static std::string url_of(const PodView& pod);
  // The pod's supervisor: http://10.0.0.7:9465/v1/supervisor.
  static std::string supervisor_url_of(const PodView& pod);

  // One round on the caller's thread, for tests and a new leader.
  void round(std::stop_token stop);

 private:
  struct Known {
    LarderdAnswer answer;
    unsigned misses = 0;
  };
  void loop(std::stop_token stop, unsigned round_ms);
  bool note(const Target& target, const Result<std::string>& body);
  void ask_supervisors(const std::vector<Target>& silent, std::stop_token stop);

  const std::unique_ptr<Fetch> fetch_;
  const std::function<std::vector<Target>()> targets_;
  const std::function<void(const k8s::Key&)> on_answers_;
  mutable std::mutex mutex_;
  std::mutex rounds_;                        // one round at a time
  std::map<std::string, Known> known_;       // by uid of the pod
  std::map<std::string, LarderdDown> down_;  // by uid of the pod
  std::jthread thread_;
};

}  // namespace larder::reconcile
