#include "operator/reconcile/prober.h"

#include <chrono>
#include <set>
#include <utility>

#include "operator/api/names.h"
#include "sidecar/base/nap.h"

namespace larder::reconcile {
namespace {

// The brackets of an IPv6 address in a URL.
std::string at_port(const PodView& pod, int port) {
  const bool six = pod.ip.find(':') != std::string::npos;
  return "http://" + (six ? "[" + pod.ip + "]" : pod.ip) + ":" + std::to_string(port);
}

}  // namespace

Prober::Prober(std::unique_ptr<Fetch> fetch, std::function<std::vector<Target>()> targets,
               std::function<void(const k8s::Key&)> on_answers, unsigned round_ms)
    : fetch_(std::move(fetch)), targets_(std::move(targets)), on_answers_(std::move(on_answers)) {
  if (round_ms > 0)
    thread_ = std::jthread([this, round_ms](std::stop_token stop) { loop(stop, round_ms); });
}
Prober::~Prober() = default;

std::string Prober::url_of(const PodView& pod) {
  return at_port(pod, api::kMetricsPort) + "/v1/status";
}
std::string Prober::supervisor_url_of(const PodView& pod) {
  return at_port(pod, api::kSupervisorPort) + "/v1/supervisor";
}

void Prober::loop(std::stop_token stop, unsigned round_ms) {
  while (!stop.stop_requested()) {
    // The rounds have fixed starts: a slow round of many silent pods does not shift the next ones.
    // A round longer than its interval begins the next at once.
    const auto next = std::chrono::steady_clock::now() + std::chrono::milliseconds(round_ms);
    round(stop);
    base::nap(std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now()),
              stop);
  }
}

// Tests call round() as well; the lock keeps two rounds apart.
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
    // Answers of deleted pods go at once: the memory stays bounded by the number of living pods.
    std::erase_if(known_, [&](const auto& one_known) { return !uids.contains(one_known.first); });
    std::erase_if(down_, [&](const auto& one_down) { return !uids.contains(one_down.first); });
  }
  // A larderd that does not answer may be restarting: its supervisor knows the reason.
  std::vector<Target> silent;
  fetch_->get_all(urls, kMostAnswerBytes, stop,
                  [&](std::size_t index, const Result<std::string>& body) {
                    if (!note(targets[index], body) && !targets[index].supervisor_url.empty())
                      silent.push_back(targets[index]);
                  });
  ask_supervisors(silent, stop);
  // Each pool is reported once a round, however many pods answered.
  for (const k8s::Key& pool : pools) on_answers_(pool);
}

// Whether the target answered.
bool Prober::note(const Target& target, const Result<std::string>& body) {
  Result<LarderdAnswer> answer =
      body.ok() ? read_answer(*body) : Result<LarderdAnswer>(body.status());
  const std::lock_guard lock(mutex_);
  if (answer.ok()) {
    // The uid and not the name: a recreated pod of a StatefulSet has the same name, and its larderd
    // begins at zero.
    known_[target.uid] = {std::move(*answer), 0};
    down_.erase(target.uid);
    return true;
  }
  const auto found = known_.find(target.uid);
  // One lost answer changes no status: the old answer counts for kMissesForgotten rounds.
  if (found != known_.end() && ++found->second.misses >= kMissesForgotten) known_.erase(found);
  return false;
}

// Only silent larderds cost a second request.
void Prober::ask_supervisors(const std::vector<Target>& silent, std::stop_token stop) {
  std::vector<std::string> urls;
  for (const Target& target : silent) urls.push_back(target.supervisor_url);
  fetch_->get_all(urls, kMostAnswerBytes, stop,
                  [&](std::size_t index, const Result<std::string>& body) {
                    Result<LarderdDown> down =
                        body.ok() ? read_supervisor(*body) : Result<LarderdDown>(body.status());
                    const std::lock_guard lock(mutex_);
                    if (down.ok())
                      down_[silent[index].uid] = std::move(*down);
                    else
                      // A supervisor without an answer is forgotten at once: an old reason could be
                      // wrong.
                      down_.erase(silent[index].uid);
                  });
}

Heard Prober::heard(const std::vector<PodView>& pods) const {
  Heard heard;
  const std::lock_guard lock(mutex_);
  for (const PodView& pod : pods) {
    if (const auto known = known_.find(pod.uid); known != known_.end())
      heard.answers[pod.uid] = known->second.answer;
    if (const auto down = down_.find(pod.uid); down != down_.end())
      heard.down[pod.uid] = down->second;
  }
  return heard;
}

}  // namespace larder::reconcile
