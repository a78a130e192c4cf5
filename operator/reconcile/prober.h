// Prober: asks every larderd that is ready for its status, round after round, and keeps the newest answer of each.
//
// One thread; a round takes what it takes (Fetch bounds it) and the next begins kRoundMs after it began. Thread-safe.
#pragma once

#include <condition_variable>
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
  };

  // `targets`: whom to ask in this round. `told`: a pool of whose pods some were asked; on the prober's thread.
  Prober(std::unique_ptr<Fetch> fetch, std::function<std::vector<Target>()> targets, std::function<void(const k8s::Key&)> told,
         unsigned round_ms = kRoundMs);
  ~Prober();

  // The newest answers of these pods, by uid; of those that answered within the last rounds.
  std::map<std::string, LarderdAnswer> answers(const std::vector<PodView>& pods) const;

  // Where larderd of `pod` answers: http://10.0.0.7:9464/v1/status, http://[fd00::7]:9464/v1/status.
  static std::string url_of(const PodView& pod);

  // One round, by the caller instead of by the thread: for tests, and for who just became leader.
  void round(std::stop_token stop);

 private:
  struct Known {
    LarderdAnswer answer;
    unsigned misses = 0;
  };
  void loop(std::stop_token stop, unsigned round_ms);
  void note(const Target& target, Result<std::string> body);

  const std::unique_ptr<Fetch> fetch_;
  const std::function<std::vector<Target>()> targets_;
  const std::function<void(const k8s::Key&)> told_;
  mutable std::mutex mutex_;
  std::mutex rounds_;  // one round at a time
  std::condition_variable_any wake_;
  std::map<std::string, Known> known_;  // by uid
  std::jthread thread_;
};

}  // namespace larder::reconcile
