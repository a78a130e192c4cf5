// `kubectl larder check -f FILE`: reads the files, tries the pods, judges, reports.
#include <map>

#include "operator/api/names.h"
#include "operator/kubectl/check_report.h"
#include "operator/kubectl/gather.h"
#include "operator/kubectl/plugin_commands.h"

namespace larder::kubectl {
namespace {

// Each template costs two dry runs, i.e. two kubectl processes and two reviews.
constexpr std::size_t kMostPods = 100;

// Two dry runs for each pod: as written, and without the request for a cache.
// Both dry runs of all pods go out together: kubectl runs several at once (Kubectl::kAtOnce).
std::vector<std::pair<Trial, Trial>> tried(const Cluster& cluster,
                                           const std::vector<PlannedPod>& pods) {
  std::vector<api::Object> all;
  for (const PlannedPod& planned : pods) {
    all.push_back(planned.pod);
    all.push_back(without_larder(planned.pod));
  }
  std::vector<Trial> trials = cluster.try_pods(all);
  std::vector<std::pair<Trial, Trial>> pairs;
  for (std::size_t i = 0; i + 1 < trials.size(); i += 2)
    pairs.emplace_back(std::move(trials[i]), std::move(trials[i + 1]));
  return pairs;
}

// Namespaces, each read once.
// Many templates are mostly of one namespace. The reference stays valid: std::map moves no entries.
class Namespaces {
 public:
  explicit Namespaces(const Cluster& cluster) : cluster_(cluster) {}
  const Result<api::Object>& of(const std::string& ns) {
    const auto found = spaces_.find(ns);
    return found != spaces_.end()
               ? found->second
               : spaces_.emplace(ns, cluster_.object("namespace", "", ns)).first->second;
  }

 private:
  const Cluster& cluster_;
  std::map<std::string, Result<api::Object>> spaces_;
};

// Quotas by namespace; an empty list if the user may not read them.
// Quotas matter only where check tried one pod of many: the API server counts just the one.
class Quotas {
 public:
  explicit Quotas(const Cluster& cluster) : cluster_(cluster) {}
  const std::vector<std::string>& of(const std::string& ns) {
    const auto [at, fresh] = names_.try_emplace(ns);
    if (!fresh || !is_name(ns)) return at->second;
    if (const Result<std::vector<api::Object>> found = cluster_.objects("resourcequotas", ns);
        found.ok())
      for (const api::Object& one : *found) at->second.push_back(api::name_of(one));
    return at->second;
  }

 private:
  const Cluster& cluster_;
  std::map<std::string, std::vector<std::string>> names_;
};

// The pod with an annotation that requests the cache. For a request of the namespace, the injector
// skips a pod without vLLM silently; the annotation makes it give the reason. Empty: refused.
std::optional<PodState> asking_pod(const Cluster& cluster, const api::Object& pod,
                                   const std::string& pool) {
  const Trial trial = cluster.try_pods({with_pool(pod, pool)}).at(0);
  return trial.taken() ? std::optional(pod_seen(trial.pod)) : std::nullopt;
}

// Facts for an accepted pod without an annotation of the injector.
// An accepted pod without any word of the injector. The webhook was not asked, passed the pod by,
// or gave no answer: failurePolicy Ignore hides the difference.
void gather_silence(const Cluster& cluster, const PodState& seen, Namespaces& namespaces,
                    CheckFacts& facts) {
  if (!seen.wanted_pool) {
    const Result<api::Object>& space = namespaces.of(seen.view.ns);
    if (!space.ok()) facts.namespace_known = space.status();
    if (!space.ok() || api::label(*space, api::kPoolLabel).value_or("").empty()) return;
  }
  facts.injection = gather_injection(cluster, seen);
  facts.injection->planned = true;
  if (!seen.wanted_pool)
    facts.injection->asking =
        asking_pod(cluster, facts.planned.pod, facts.injection->namespace_pool);
}

CheckFacts facts_of(const Cluster& cluster, const PlannedPod& planned,
                    std::pair<Trial, Trial> trials, const Planned& all, Namespaces& namespaces,
                    Quotas& quotas) {
  CheckFacts facts{planned, std::move(trials.first), std::move(trials.second), {}, {}, all.needed};
  if (!facts.with.taken()) return facts;
  if (planned.copies > 1) facts.quotas = quotas.of(planned.ns);
  const PodState seen = pod_seen(facts.with.pod);
  const bool silence = !seen.injected && !seen.declined && seen.not_injected.empty();
  if (silence && is_name(seen.view.ns)) gather_silence(cluster, seen, namespaces, facts);
  return facts;
}

// -n goes to kubectl as well: objects without a namespace get it, as in kubectl apply.
Words file_options(const Arguments& arguments) {
  Words options = arguments.files;
  if (!arguments.ns.empty()) options.push_back("--namespace=" + arguments.ns);
  return options;
}

}  // namespace

Result<ctl::Outcome> check_files(const Arguments& arguments, const Cluster& cluster) {
  if (arguments.files.empty())
    return Status(
        Code::kInvalidArgument,
        "which files? kubectl larder check -f FILE (- for standard input), or -k DIRECTORY");
  if (arguments.all_namespaces)
    return Status(Code::kInvalidArgument,
                  "check takes the namespace of each object, or of -n for objects without a "
                  "namespace; remove -A");
  const Result<GivenObjects> given = cluster.objects_of_files(file_options(arguments));
  if (!given.ok()) return given.status();
  // A client-side dry run gives the objects; templates are found in objects of any kind.
  const Planned planned = planned_pods(given->objects);
  if (planned.pods.size() > kMostPods)
    return Status(Code::kOutOfRange, std::to_string(planned.pods.size()) +
                                         " pod templates, but check takes at most " +
                                         std::to_string(kMostPods) + " at once: give fewer files");
  std::vector<std::pair<Trial, Trial>> trials = tried(cluster, planned.pods);
  Namespaces namespaces(cluster);
  Quotas quotas(cluster);
  CheckReport report{{}, planned.without, given->unread};
  for (std::size_t i = 0; i < planned.pods.size(); ++i)
    report.pods.push_back(check_pod(
        facts_of(cluster, planned.pods[i], std::move(trials[i]), planned, namespaces, quotas)));
  const std::string text = arguments.json   ? check_json(report)
                           : arguments.yaml ? check_yaml(report)
                                            : check_text(report);
  return ctl::Outcome{text, check_status(report)};
}

}  // namespace larder::kubectl
