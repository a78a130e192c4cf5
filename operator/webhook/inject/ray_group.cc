#include "operator/webhook/inject/ray_group.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "operator/webhook/inject/config_maps.h"
#include "operator/webhook/inject/container_variables.h"
#include "operator/webhook/inject/shell_expansion.h"
#include "operator/webhook/inject/shell_text.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr const char* kReason =
    "the pod belongs to a group that runs one engine over Ray (multi-node over Ray is not served "
    "yet; run the engine in one pod with --distributed-executor-backend mp, or in several with "
    "vLLM's own --nnodes, --headless or --data-parallel-address)";

constexpr const char* kUnreadBackend =
    "a variable that the injector cannot read gives --distributed-executor-backend or "
    "--data-parallel-backend, and may say ray (multi-node over Ray is not served yet); write the "
    "value out";

constexpr std::string_view kRayDomain = "ray.io/";  // KubeRay's labels and annotations
constexpr std::string_view kGroupDomain = "leaderworkerset.sigs.k8s.io/";    // LeaderWorkerSet's
constexpr std::string_view kGroupSize = "leaderworkerset.sigs.k8s.io/size";  // an annotation
constexpr std::array<std::string_view, 3> kVariables{"RAY_ADDRESS", "FQ_RAY_IP",
                                                     "KUBERAY_GEN_RAY_START_CMD"};
constexpr std::array<std::string_view, 3> kScripts{"multi-node-serving.sh", "run-cluster.sh",
                                                   "KUBERAY-GEN-RAY-START-CMD"};  // with - for _
// Commands of Ray's program. `ray status` waits for the other pods of a group.
constexpr auto kRayCommands =
    std::to_array<std::string_view>({"start", "symmetric-run", "status", "health-check", "stop",
                                     "job", "get-head-ip", "attach", "submit"});
constexpr int kMostRayOptions = 6;  // words between `ray` and its command
constexpr std::string_view kJobSetDomain = "jobset.sigs.k8s.io/";  // JobSet's labels
// Signs that the pods of a JobSet share one engine.
constexpr std::array<std::string_view, 6> kJobSetWords{
    "JOB-COMPLETION-INDEX", "JOBSET-", "--pipeline-parallel-size", "-pp ", "-pp\n", "-pp="};
// Flags whose value may be "ray"; argparse accepts prefixes.
struct Backend {
  std::string_view flag, least;  // the shortest prefix that argparse takes for the flag
};
constexpr std::array<Backend, 3> kBackends{{{"-dpb", "-dpb"},
                                            {"--distributed-executor-backend", "--distributed-e"},
                                            {"--data-parallel-backend", "--data-parallel-b"}}};
// Flags of an engine over several pods without Ray.
constexpr std::array<std::string_view, 12> kOwnGroups{"--headless",
                                                      "--nnodes",
                                                      "--node-rank",
                                                      "--data-parallel-address",
                                                      "--data-parallel-size-local",
                                                      "--data-parallel-start-rank",
                                                      "--data-parallel-rank",
                                                      "-dpa ",
                                                      "-dpl ",
                                                      "-dpr ",
                                                      "--data-parallel-hybrid-lb",
                                                      "--data-parallel-external-lb"};

bool is_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
}
bool is_gap(char c) {
  return std::string_view(" \t\n\\=\"'").find(c) != std::string_view::npos;
}

// The word at `at`, after separators between a flag and its value.
std::string_view word_from(std::string_view text, std::size_t at) {
  while (at < text.size() && is_gap(text[at])) ++at;
  std::size_t end = at;
  while (end < text.size() && is_part(text[end])) ++end;
  return text.substr(at, end - at);
}

// As word_from(), or the expansion there.
std::string_view value_from(std::string_view text, std::size_t at) {
  if (const std::string_view word = word_from(text, at); !word.empty()) return word;
  while (at < text.size() && is_gap(text[at])) ++at;
  const std::size_t end = text.find_first_of(" \t\n\"';&|", at);
  return text.substr(at, end == std::string_view::npos ? end : end - at);
}

enum class Gives { kOther, kRay, kUnread };

// The meaning of a backend's value: "ray", "$(BACKEND)", "${BACKEND:-mp}".
Gives meaning_of(std::string_view value, const Object& container) {
  // "ray", and a class such as vllm.v1.executor.ray-executor.RayDistributedExecutor.
  const auto is_ray = [](std::string_view text) {
    return lower(text).find("ray") != std::string::npos;
  };
  if (value.find_first_of("$`") == std::string_view::npos)
    return is_ray(value) ? Gives::kRay : Gives::kOther;
  const std::vector<std::string> names = kubernetes_names(value);
  std::string name = names.empty() ? expansion_of(value).name : names.front();
  std::ranges::replace(name, '-', '_');
  const ContainerVariable variable = variable_of(container, name);
  if (variable.kind != ContainerVariable::Kind::kText ||
      variable.text.find_first_of("$`") != std::string::npos)
    return Gives::kUnread;
  return is_ray(variable.text) ? Gives::kRay : Gives::kOther;
}

Gives given_by(std::string_view text, std::string_view flag, std::string_view least,
               const Object& container) {
  Gives worst = Gives::kOther;
  for (std::size_t at = text.find(least); at != std::string_view::npos;
       at = text.find(least, at + 1)) {
    std::size_t end = at;
    while (end < text.size() && end - at <= flag.size() && is_part(text[end])) ++end;
    if (!flag.starts_with(text.substr(at, end - at)) || end >= text.size()) continue;
    // A=(m --distributed-executor-backend); A+=(ray): the value stands elsewhere.
    if (text[end] == ')') worst = Gives::kUnread;
    if (!is_gap(text[end])) continue;
    const Gives one = meaning_of(value_from(text, end), container);
    if (one == Gives::kRay) return one;
    if (one == Gives::kUnread) worst = one;
  }
  return worst;
}

// The word in front of `at`, with separators between the two.
std::string_view word_before(std::string_view text, std::size_t at) {
  while (at > 0 && is_gap(text[at - 1])) --at;
  std::size_t begin = at;
  while (begin > 0 && is_part(text[begin - 1])) --begin;
  return text.substr(begin, at - begin);
}

// Whether "ray" at `at` is the Python package: `-m ray.scripts.scripts`, `import ray`, ray.init().
bool is_ray_module(std::string_view text, std::size_t at) {
  const std::string_view before = word_before(text, at), behind = text.substr(at + 3);
  return before == "-m" || before == "import" || before == "from" || behind.starts_with(".init(");
}

// Whether "ray" at `at` is in the name of a script: /ray.sh, start-ray-cluster.sh, ray_head.py.
bool is_ray_script(std::string_view text, std::size_t at) {
  if (text.substr(0, at).ends_with("x-")) return false;  // x-ray.py
  std::size_t end = at;
  while (end < text.size() && is_part(text[end])) ++end;
  const std::string_view name = text.substr(0, end);
  return name.ends_with(".sh") || name.ends_with(".py") || name.ends_with(".bash");
}

// Whether a command of Ray's program follows, behind its options: `--logging-level debug start`.
bool is_ray_command(std::string_view text) {
  bool may_be_value = false;
  for (int word = 0; word < kMostRayOptions; ++word) {
    while (!text.empty() && is_gap(text[0])) text.remove_prefix(1);
    const std::string_view one = word_from(text, 0);
    if (std::ranges::find(kRayCommands, one) != kRayCommands.end()) return true;
    if (one.empty() || (!one.starts_with('-') && !may_be_value)) return false;
    may_be_value = one.starts_with('-');
    text.remove_prefix(one.size());
  }
  return false;
}

// `ray start`, also /usr/bin/ray.
// The word "array" has ray in it: the characters around the word are checked.
bool starts_ray(std::string_view text) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = text.find("ray"); at != std::string_view::npos;
       at = text.find("ray", at + 1)) {
    const std::size_t end = at + 3;
    if ((at > 0 && is_letter(text[at - 1])) || (end < text.size() && is_letter(text[end])))
      continue;
    if (is_ray_module(text, at) || is_ray_script(text, at)) return true;
    if ((at > 0 && is_part(text[at - 1])) || (end < text.size() && !is_gap(text[end]))) continue;
    if (is_ray_command(text.substr(end))) return true;
  }
  return false;
}

bool has_any(std::string_view text, const auto& all) {
  return std::ranges::any_of(
      all, [text](std::string_view one) { return text.find(one) != std::string_view::npos; });
}

// Why the text of a container points to Ray; "": no sign.
std::string speaks_of_ray(std::string_view text, const Object& container) {
  if (starts_ray(text) || has_any(text, kScripts)) return kReason;
  Gives worst = Gives::kOther;
  for (const auto& [flag, least] : kBackends)
    worst = std::max(worst, given_by(text, flag, least, container));
  if (worst == Gives::kOther) return "";
  return worst == Gives::kRay ? kReason : kUnreadBackend;
}

// Words that the kubelet runs in a container: its command, its hooks and its probes.
constexpr std::array<std::string_view, 7> kWordLists{"command",
                                                     "args",
                                                     "lifecycle.postStart.exec.command",
                                                     "lifecycle.preStop.exec.command",
                                                     "startupProbe.exec.command",
                                                     "livenessProbe.exec.command",
                                                     "readinessProbe.exec.command"};

// All words and variables of a container, one word per line, with - for _.
std::string said_by(const Object& container) {
  std::string said;
  for (const std::string_view list : kWordLists)
    for (const Object& word : api::at(container, list))
      if (word.is_string()) said += word.get_ref<const std::string&>() + "\n";
  for (const Object& variable : api::at(container, "env"))
    said += api::text_at(variable, "value") + "\n";
  for (const Object& source : api::at(container, "envFrom"))
    for (const Object& value : api::child(source, kRead))
      if (value.is_string()) said += value.get_ref<const std::string&>() + "\n";
  std::string readable = without_comment_lines(said);
  std::ranges::replace(readable, '_', '-');
  return readable;
}

bool has_key(const Object& pod, const char* map, std::string_view domain) {
  const Object& keys = api::at(api::at(pod, "metadata"), map);
  if (!keys.is_object()) return false;
  for (const auto& [key, value] : keys.items())
    if (key.starts_with(domain)) return true;
  return false;
}

bool has_variable(const Object& container, const auto& names) {
  return std::ranges::any_of(
      names, [&container](std::string_view one) { return sets_variable(container, one); });
}

// A variable of Ray that names the group's head, such as RAY_HEAD_IP.
bool names_ray_head(std::string_view name) {
  if (!name.starts_with("RAY_")) return false;
  // Whole parts: RAY_DISABLE_IMPORT_WARNING has no PORT.
  const std::string parts = std::string(name) + "_";
  return std::ranges::any_of(
      std::array<std::string_view, 4>{"_HEAD_", "_CLUSTER_", "_NODE_", "_PORT_"},
      [&parts](std::string_view part) { return parts.find(part) != std::string::npos; });
}

// Such a variable, or envFrom with the prefix of Ray's variables: `prefix: RAY_`.
bool gives_ray_variables(const Object& container) {
  for (const Object& variable : api::at(container, "env"))
    if (names_ray_head(api::text_at(variable, "name"))) return true;
  const Object& sources = api::at(container, "envFrom");
  return sources.is_array() && std::ranges::any_of(sources, [](const Object& source) {
           return api::text_at(source, "prefix").starts_with("RAY_");
         });
}

// Whether the pod belongs to a JobSet, and its words tell apart the pods of one engine. A JobSet
// may as well have many pods with an engine each.
bool is_of_job_set(const Object& pod, std::string_view said) {
  bool is_of = has_key(pod, "labels", kJobSetDomain) || has_key(pod, "annotations", kJobSetDomain);
  for (const Object& container : api::at(pod, "spec.containers"))
    for (const Object& variable : api::at(container, "env")) {
      const std::string field = api::text_at(variable, "valueFrom.fieldRef.fieldPath");
      is_of = is_of || api::text_at(variable, "name").starts_with("JOBSET_") ||
              field.find(kJobSetDomain) != std::string::npos;
    }
  return is_of && has_any(said, kJobSetWords);
}

// Whether the pod belongs to a LeaderWorkerSet with several pods per group.
// A LeaderWorkerSet of size 1 is an ordinary pod.
bool is_of_group(const Object& pod) {
  if (const auto size = api::annotation(pod, kGroupSize)) return *size != "1";
  if (has_key(pod, "labels", kGroupDomain)) return true;
  constexpr std::array<std::string_view, 2> kGroupVariables{"LWS_GROUP_SIZE", "LWS_LEADER_ADDRESS"};
  for (const Object& container : api::at(pod, "spec.containers"))
    if (has_variable(container, kGroupVariables)) return true;
  return false;
}

}  // namespace

// A sign may be on some pods of a group only: the leader has the flag, and workers have the label
// or the variable.
std::string ray_group(const Object& pod) {
  if (has_key(pod, "labels", kRayDomain) || has_key(pod, "annotations", kRayDomain)) return kReason;
  bool needs_no_ray = false;
  std::string all;
  for (const char* list : {"spec.containers", "spec.initContainers"})
    for (const Object& container : api::at(pod, list)) {
      const std::string said = said_by(container);
      if (has_variable(container, kVariables) || gives_ray_variables(container)) return kReason;
      if (std::string why = speaks_of_ray(said, container); !why.empty()) return why;
      needs_no_ray = needs_no_ray || has_any(said, kOwnGroups);
      all += said;
    }
  return (is_of_group(pod) || is_of_job_set(pod, all)) && !needs_no_ray ? kReason : "";
}

}  // namespace larder::webhook
