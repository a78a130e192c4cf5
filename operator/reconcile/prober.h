// Prober: asks every larderd that should run for its status, round after round, and keeps the newest answer of each; of one that does
// not answer it asks the supervisor why.
//
// One thread; a round takes what it takes (Fetch bounds it) and the next begins kRoundMs after it began. Thread-safe.
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
  static constexpr unsigned kMissesForgotten = 3;  // rounds without an answer after which what it said last counts no more

  struct Target {
    k8s::Key pool;
    std::string uid, url;
    std::string supervisor_url = {};  // asked where the other is silent; empty: there is none
  };

  // `targets`: whom to ask in this round. `told`: a pool of whose pods some were asked; on the prober's thread.
  Prober(std::unique_ptr<Fetch> fetch, std::function<std::vector<Target>()> targets, std::function<void(const k8s::Key&)> told,
         unsigned round_ms = kRoundMs);
  ~Prober();

  // What these pods said last.
  Heard heard(const std::vector<PodView>& pods) const;

  // Where larderd of `pod` answers: http://10.0.0.7:9464/v1/status, http://[fd00::7]:9464/v1/status.
  static std::string url_of(const PodView& pod);
  // And its supervisor: http://10.0.0.7:9465/v1/supervisor.
  static std::string supervisor_url_of(const PodView& pod);

  // One round, by the caller instead of by the thread: for tests, and for who just became leader.
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
  const std::function<void(const k8s::Key&)> told_;
  mutable std::mutex mutex_;
  std::mutex rounds_;                        // one round at a time
  std::map<std::string, Known> known_;       // by uid
  std::map<std::string, LarderdDown> down_;  // the same
  std::jthread thread_;
};

}  // namespace larder::reconcile
