#include "operator/kubectl/cluster.h"

#include <algorithm>

#include "operator/api/names.h"
#include "sidecar/ctl/admin_client.h"

namespace larder::kubectl {
namespace {

using api::Object;

constexpr std::size_t kPodsAPage = 250;      // pages of a few MiB
constexpr std::size_t kMostNameBytes = 253;  // RFC 1123, as the API server
constexpr std::size_t kMostLogBytes =
    4u << 20;  // kubectl gives the first bytes; engines log the reason early

std::vector<Object> items_of(const Object& list) {
  const Object& items = api::at(list, "items");
  return items.is_array() ? items.get<std::vector<Object>>() : std::vector<Object>();
}

// An empty namespace means all namespaces.
Words in_namespace(Words words, const std::string& ns) {
  if (ns.empty())
    words.emplace_back("--all-namespaces");
  else
    words.insert(words.end(), {"--namespace", ns});
  return words;
}

// The API server's proxy to the pod: the user needs the right to get pods/proxy, and no route to
// the pod.
std::string status_path(const PodState& pod) {
  return "/api/v1/namespaces/" + pod.view.ns + "/pods/" + pod.view.name + ":" +
         std::to_string(api::kMetricsPort) + "/proxy/v1/status";
}

}  // namespace

// Names of the cluster become arguments of kubectl and parts of URLs. A name that begins with "-"
// would be an option, and "/" would leave the path.
bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= kMostNameBytes && std::ranges::all_of(text, allowed) &&
         text.front() != '-' && text.front() != '.';
}

// The answer is untrusted text: api::parse_json() bounds bytes and depth.
Result<Object> Cluster::parsed(const Words& words) const {
  const Result<std::string> answer = kubectl_.ask(words);
  if (!answer.ok()) return answer.status();
  return api::parse_json(*answer);
}

// jsonpath gives an empty text for a context without a namespace.
Result<std::string> Cluster::current_namespace() const {
  const Result<std::string> answer =
      kubectl_.ask({"config", "view", "--minify", "--output", "jsonpath={..namespace}"});
  // Without a context kubectl itself uses "default".
  return answer.ok() && is_name(*answer) ? *answer : std::string("default");
}

Result<Object> Cluster::object(const std::string& kind, const std::string& ns,
                               const std::string& name) const {
  Words words{"get", kind, name, "--output", "json"};
  return parsed(ns.empty() ? words : in_namespace(words, ns));
}

Result<std::vector<Object>> Cluster::objects(const std::string& kind, const std::string& ns,
                                             const std::string& which) const {
  Words words{"get", kind, "--output", "json"};
  if (!which.empty()) words.push_back(which);
  const Result<Object> list = parsed(in_namespace(words, ns));
  if (!list.ok()) return list.status();
  return items_of(*list);
}

// kMostPods bounds memory and time; a user of a larger cluster names a namespace.
Result<std::vector<PodState>> Cluster::pods(const std::string& ns,
                                            const std::string& labels) const {
  std::vector<PodState> seen;
  std::string next;
  do {
    // `kubectl get` collects all pages in memory before it prints; --raw gives page after page.
    std::string path = ns.empty() ? "/api/v1/pods" : "/api/v1/namespaces/" + ns + "/pods";
    path += "?limit=" + std::to_string(kPodsAPage);
    if (!labels.empty()) path += "&labelSelector=" + ctl::percent_encoded(labels);
    if (!next.empty()) path += "&continue=" + ctl::percent_encoded(next);
    const Result<Object> page = parsed({"get", "--raw", path});
    if (!page.ok()) return page.status();
    for (const Object& pod : api::at(*page, "items")) seen.push_back(pod_seen(pod));
    next = api::text_at(*page, "metadata.continue");
  } while (!next.empty() && seen.size() < kMostPods);
  if (!next.empty())
    return Status(Code::kOutOfRange,
                  "more than " + std::to_string(kMostPods) + " pods: name a namespace with -n");
  return seen;
}

Result<PodState> Cluster::pod(const std::string& ns, const std::string& name) const {
  const Result<Object> found = object("pod", ns, name);
  if (!found.ok()) return found.status();
  return pod_seen(*found);
}

// One batch of requests, so that one slow larderd does not delay the others one by one.
// kubectl runs as one process for each larderd: see Kubectl::ask_all().
std::vector<Result<ctl::Snapshot>> Cluster::larderds(const std::vector<PodState>& pods) const {
  std::vector<Result<ctl::Snapshot>> answers(pods.size(),
                                             Status(Code::kUnavailable, "larderd is not ready"));
  std::vector<Words> calls;
  std::vector<std::size_t> whose;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    if (pods[i].view.host_network)
      answers[i] = Status(Code::kUnsupported,
                          "with hostNetwork larderd has no HTTP port; " + pods[i].ask_by_hand());
    if (!reconcile::answers(pods[i].view) || !is_name(pods[i].view.ns) ||
        !is_name(pods[i].view.name))
      continue;
    calls.push_back({"get", "--raw", status_path(pods[i])});
    whose.push_back(i);
  }
  std::vector<Result<std::string>> texts = kubectl_.ask_all(calls, kMostAnswerBytes);
  for (std::size_t i = 0; i < texts.size(); ++i)
    answers[whose[i]] =
        texts[i].ok() ? ctl::read_snapshot(*texts[i]) : Result<ctl::Snapshot>(texts[i].status());
  return answers;
}

// The name of the pool becomes a path in the pod (/run/larder/POOL.admin).
Status Cluster::run_larderctl(const PodState& larderd, const std::vector<std::string>& words,
                              std::chrono::milliseconds deadline) const {
  if (!is_name(larderd.view.pool))
    return {Code::kInvalidArgument, "'" + larderd.view.pool + "' is no name of a pool"};
  return kubectl_.show(larderd.exec_larderctl(words), deadline);
}

// --limit-bytes gives the first bytes. One byte more is allowed, so a cut log is no error of
// length.
Result<std::string> Cluster::log(const PodState& pod, const std::string& container) const {
  return kubectl_.ask({"logs", pod.view.name, "--namespace", pod.view.ns, "--container", container,
                       "--limit-bytes", std::to_string(kMostLogBytes)},
                      kMostLogBytes + 1);
}

}  // namespace larder::kubectl
