// `kubectl larder check -f FILE`: reads, tries, judges, says.
#include <map>

#include "sidecar/ctl/kube/check_report.h"
#include "sidecar/ctl/kube/gather.h"
#include "sidecar/ctl/kube/plugin_commands.h"

namespace larder::kube {
namespace {

constexpr std::size_t kMostPods = 100;

// With a dry run each, of what asks for a cache and of the same without.
std::vector<std::pair<Trial, Trial>> tried(const Cluster& cluster, const std::vector<PlannedPod>& pods) {
  std::vector<api::Object> all;
  for (const PlannedPod& planned : pods) {
    all.push_back(planned.pod);
    all.push_back(without_larder(planned.pod));
  }
  std::vector<Trial> trials = cluster.try_pods(all);
  std::vector<std::pair<Trial, Trial>> pairs;
  for (std::size_t i = 0; i + 1 < trials.size(); i += 2) pairs.emplace_back(std::move(trials[i]), std::move(trials[i + 1]));
  return pairs;
}

// By namespace; none where the user may not read them.
class Quotas {
 public:
  explicit Quotas(const Cluster& cluster) : cluster_(cluster) {}
  const std::vector<std::string>& of(const std::string& ns) {
    const auto [at, fresh] = names_.try_emplace(ns);
    if (!fresh || !is_name(ns)) return at->second;
    if (const Result<std::vector<api::Object>> found = cluster_.objects("resourcequotas", ns); found.ok())
      for (const api::Object& one : *found) at->second.push_back(api::name_of(one));
    return at->second;
  }

 private:
  const Cluster& cluster_;
  std::map<std::string, std::vector<std::string>> names_;
};

CheckFacts facts_of(const Cluster& cluster, const PlannedPod& planned, std::pair<Trial, Trial> trials, const Planned& all,
                    Quotas& quotas) {
  CheckFacts facts{planned, std::move(trials.first), std::move(trials.second), {}, {}, all.needed};
  if (!facts.with.taken()) return facts;
  if (planned.copies > 1) facts.quotas = quotas.of(planned.ns);
  const PodSeen seen = pod_seen(facts.with.pod);
  if (!seen.injected && seen.wanted_pool && seen.not_injected.empty() && is_name(seen.view.ns)) {
    facts.injection = gather_injection(cluster, seen);
    facts.injection->planned = true;
  }
  return facts;
}

Words file_options(const Arguments& arguments) {
  Words options = arguments.files;
  if (!arguments.ns.empty()) options.push_back("--namespace=" + arguments.ns);
  return options;
}

}  // namespace

Result<ctl::Outcome> check_files(const Arguments& arguments, const Cluster& cluster) {
  if (arguments.files.empty())
    return Status(Code::kInvalidArgument, "check what? kubectl larder check -f FILE (- for standard input), or -k DIRECTORY");
  if (arguments.all_namespaces)
    return Status(Code::kInvalidArgument, "check takes the namespace of each object, and of those without one -n: no -A");
  const Result<GivenObjects> given = cluster.objects_of_files(file_options(arguments));
  if (!given.ok()) return given.status();
  const Planned planned = planned_pods(given->objects);
  if (planned.pods.size() > kMostPods)
    return Status(Code::kOutOfRange, std::to_string(planned.pods.size()) + " pod templates, and " + std::to_string(kMostPods) +
                                         " are checked at once: give fewer files");
  std::vector<std::pair<Trial, Trial>> trials = tried(cluster, planned.pods);
  Quotas quotas(cluster);
  CheckReport report{{}, planned.without, given->unread};
  for (std::size_t i = 0; i < planned.pods.size(); ++i)
    report.pods.push_back(check_pod(facts_of(cluster, planned.pods[i], std::move(trials[i]), planned, quotas)));
  const std::string text = arguments.json ? check_json(report) : arguments.yaml ? check_yaml(report) : check_text(report);
  return ctl::Outcome{text, check_status(report)};
}

}  // namespace larder::kube
