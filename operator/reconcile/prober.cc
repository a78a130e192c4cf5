#include "operator/reconcile/prober.h"

#include <chrono>
#include <set>
#include <utility>

#include "operator/api/names.h"

namespace larder::reconcile {

Prober::Prober(std::unique_ptr<Fetch> fetch, std::function<std::vector<Target>()> targets,
               std::function<void(const k8s::Key&)> told, unsigned round_ms)
    : fetch_(std::move(fetch)), targets_(std::move(targets)), told_(std::move(told)) {
  if (round_ms > 0) thread_ = std::jthread([this, round_ms](std::stop_token stop) { loop(stop, round_ms); });
}
Prober::~Prober() = default;

std::string Prober::url_of(const PodView& pod) {
  const bool six = pod.ip.find(':') != std::string::npos;
  return "http://" + (six ? "[" + pod.ip + "]" : pod.ip) + ":" + std::to_string(api::kMetricsPort) + "/v1/status";
}

void Prober::loop(std::stop_token stop, unsigned round_ms) {
  while (!stop.stop_requested()) {
    const auto next = std::chrono::steady_clock::now() + std::chrono::milliseconds(round_ms);
    round(stop);
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, stop, next, [] { return false; });
  }
}

void Prober::round(std::stop_token stop) {
  const std::lock_guard one(rounds_);
  const std::vector<Target> targets = targets_();
  std::vector<std::string> urls;
  std::set<std::string> uids;
  std::set<k8s::Key> pools;
  for (const Target& target : targets) {
    urls.push_back(target.url);
    uids.insert(target.uid);
    pools.insert(target.pool);
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [&](const auto& one_known) { return !uids.contains(one_known.first); });
  }
  fetch_->get_all(urls, kMostAnswerBytes, stop,
                  [&](std::size_t index, Result<std::string> body) { note(targets[index], std::move(body)); });
  for (const k8s::Key& pool : pools) told_(pool);
}

void Prober::note(const Target& target, Result<std::string> body) {
  Result<LarderdAnswer> answer = body.ok() ? read_answer(*body) : Result<LarderdAnswer>(body.status());
  const std::lock_guard lock(mutex_);
  if (answer.ok()) {
    known_[target.uid] = {std::move(*answer), 0};
    return;
  }
  const auto found = known_.find(target.uid);
  if (found != known_.end() && ++found->second.misses >= kMissesForgotten) known_.erase(found);
}

std::map<std::string, LarderdAnswer> Prober::answers(const std::vector<PodView>& pods) const {
  std::map<std::string, LarderdAnswer> found;
  const std::lock_guard lock(mutex_);
  for (const PodView& pod : pods)
    if (const auto known = known_.find(pod.uid); known != known_.end()) found[pod.uid] = known->second.answer;
  return found;
}

}  // namespace larder::reconcile
