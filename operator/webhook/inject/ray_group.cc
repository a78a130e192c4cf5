#include "operator/webhook/inject/ray_group.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace larder::webhook {
namespace {

using api::Object;

constexpr const char* kReason =
    "the pod belongs to a group that runs one engine over Ray (multi-node over Ray is not served "
    "yet; run the engine in one "
    "pod with --distributed-executor-backend mp, or in several with vLLM's own --nnodes, "
    "--headless or "
    "--data-parallel-address)";

// Labels of KubeRay stand on head and workers alike.
constexpr std::string_view kRayDomain = "ray.io/";  // KubeRay's labels and annotations
constexpr std::string_view kGroupDomain = "leaderworkerset.sigs.k8s.io/";    // LeaderWorkerSet's
constexpr std::string_view kGroupSize = "leaderworkerset.sigs.k8s.io/size";  // an annotation
constexpr std::array<std::string_view, 3> kVariables{"RAY_ADDRESS", "FQ_RAY_IP",
                                                     "KUBERAY_GEN_RAY_START_CMD"};
constexpr std::array<std::string_view, 2> kScripts{"multi-node-serving.sh",
                                                   "KUBERAY-GEN-RAY-START-CMD"};  // with - for _
// Flags whose value may be "ray"; argparse accepts prefixes.
constexpr std::array<std::string_view, 2> kBackends{"--distributed-executor-backend",
                                                    "--data-parallel-backend"};
// "--distributed-e" is the shortest prefix that argparse takes for --distributed-executor-backend.
constexpr std::array<std::string_view, 2> kLeastOfBackends{"--distributed-e", "--data-parallel-b"};
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

// Comments are left out: an explanation may mention Ray.
// A command line or a script without the lines that are comments, with - for _.
std::string readable(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] != '#') kept.append(line).append("\n");
  }
  std::ranges::replace(kept, '_', '-');
  return kept;
}

// Example: `--distributed-executor-backend=ray`, `--distributed-executor-backend \` and "ray" in
// the next line.
bool gives_ray(std::string_view text, std::string_view flag, std::string_view least) {
  for (std::size_t at = text.find(least); at != std::string_view::npos;
       at = text.find(least, at + 1)) {
    std::size_t end = at;
    while (end < text.size() && end - at <= flag.size() && is_part(text[end])) ++end;
    if (flag.starts_with(text.substr(at, end - at)) && word_from(text, end) == "ray") return true;
  }
  return false;
}

// `ray start`, also /usr/bin/ray.
// The word "array" has ray in it: the characters around the word are checked.
bool starts_ray(std::string_view text) {
  for (std::size_t at = text.find("ray"); at != std::string_view::npos;
       at = text.find("ray", at + 1)) {
    if ((at > 0 && is_part(text[at - 1])) || (at + 3 < text.size() && !is_gap(text[at + 3])))
      continue;
    const std::string_view next = word_from(text, at + 3);
    if (next == "start" || next == "symmetric-run") return true;
  }
  return false;
}

bool has_any(std::string_view text, const auto& all) {
  return std::ranges::any_of(
      all, [text](std::string_view one) { return text.find(one) != std::string_view::npos; });
}

// A text search and not the shell reader: a sign of Ray anywhere is enough to leave the pod alone.
bool speaks_of_ray(std::string_view text) {
  for (std::size_t at = 0; at < kBackends.size(); ++at)
    if (gives_ray(text, kBackends[at], kLeastOfBackends[at])) return true;
  return gives_ray(text, "-dpb", "-dpb") || starts_ray(text) || has_any(text, kScripts);
}

// All words and variables of a container, one word per line.
std::string said_by(const Object& container) {
  std::string said;
  for (const char* list : {"command", "args"})
    for (const Object& word : api::at(container, list))
      if (word.is_string()) said += word.get_ref<const std::string&>() + "\n";
  for (const Object& variable : api::at(container, "env"))
    said += api::text_at(variable, "value") + "\n";
  return readable(said);
}

bool has_key(const Object& pod, const char* map, std::string_view domain) {
  const Object& keys = api::at(api::at(pod, "metadata"), map);
  if (!keys.is_object()) return false;
  for (const auto& [key, value] : keys.items())
    if (key.starts_with(domain)) return true;
  return false;
}

bool has_variable(const Object& container, const auto& names) {
  return std::ranges::any_of(api::at(container, "env"), [&names](const Object& variable) {
    const std::string name = api::text_at(variable, "name");
    return std::ranges::any_of(names, [&name](std::string_view one) { return name == one; });
  });
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
  for (const char* list : {"spec.containers", "spec.initContainers"})
    for (const Object& container : api::at(pod, list)) {
      const std::string said = said_by(container);
      if (speaks_of_ray(said) || has_variable(container, kVariables)) return kReason;
      needs_no_ray = needs_no_ray || has_any(said, kOwnGroups);
    }
  return is_of_group(pod) && !needs_no_ray ? kReason : "";
}

}  // namespace larder::webhook
