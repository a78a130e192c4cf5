#include "operator/kubectl/hit_diagnostics.h"

#include <algorithm>
#include <charconv>

#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using base::grouped;
using ctl::Snapshot;
using Weight = Diagnostic::Weight;

constexpr double kFewHits = 0.02;       // share of the requested tokens; below, hits are chance
constexpr double kMostlyShort = 0.9;    // share of the requests
constexpr std::size_t kMostLine = 400;  // bytes of a log line on the screen

Diagnostic problem(const char* reason, std::string what, std::string remedy) {
  return {Weight::kProblem, reason, std::move(what), std::move(remedy)};
}
Diagnostic perhaps(const char* reason, std::string what, std::string remedy) {
  return {Weight::kPerhaps, reason, std::move(what), std::move(remedy)};
}

// The remedy is a command to copy, with namespace and name filled in.
std::string describe(const PodState& pod) {
  return "kubectl describe pod " + pod.view.name + " -n " + pod.view.ns;
}

// Why no larderd runs for the pod.
// From outside to inside: without a larderd no further question makes sense.
std::optional<Diagnostic> larderd_down(const HitFacts& facts) {
  if (!facts.larderd_pod)
    return problem(
        "NoLarderdOnNode", "no larderd of the pool runs on the pod's node " + facts.pod.node,
        "kubectl get pods -n " + facts.pod.view.ns + " -l larder.dev/pool=" + facts.pod.view.pool +
            " -o wide; see spec.node.nodeSelector and tolerations of the pool");
  const PodState& pod = *facts.larderd_pod;
  const reconcile::PodView& larderd = pod.view;
  if (larderd.ready) return std::nullopt;
  if (larderd.killed_for_memory)
    return problem("LarderdOutOfMemory", "larderd was killed for memory",
                   "remove spec.resources.limits.memory from the pool, or raise the limit");
  if (!larderd.unscheduled.empty())
    return problem("NotScheduled", "the pod has no node: " + larderd.unscheduled, describe(pod));
  // larderd, or a container that must start before larderd.
  const std::string container =
      larderd.waiting_container.empty() ? "larder" : larderd.waiting_container;
  if (larderd.waiting.find("Image") != std::string::npos)
    return problem("ImageNotPulled",
                   "the image of container " + container + " is not pulled: " + larderd.waiting +
                       ": " + larderd.waiting_text,
                   "check the name of the image, and the pull secret of the pod's service account");
  const bool starting = larderd.waiting.empty() || larderd.waiting == "PodInitializing" ||
                        larderd.waiting == "ContainerCreating";
  if (starting && larderd.restarts == 0)
    return perhaps("LarderdStarting", "larderd is not ready yet",
                   "wait; if larderd does not become ready: " + describe(pod));
  return problem(
      "LarderdDown",
      "larderd does not run" +
          (larderd.waiting.empty() ? "" : ": " + larderd.waiting + " " + larderd.waiting_text) +
          ", " + base::plural(static_cast<std::uint64_t>(larderd.restarts), "restart"),
      "kubectl logs " + larderd.name + " -n " + larderd.ns + " -c " + container + " --previous");
}

// The shim logs why it is off: that line is certain, and every other finding is a guess beside it.
Diagnostic engine_off(const HitFacts& facts) {
  return problem("EngineOff",
                 "the engine runs without the cache; the engine's reason: " + facts.engine_says,
                 "change the engine's flags accordingly");
}

// larderd runs without an attached engine. The order is from certain to likely: the engine's own
// words, its container, larderd's refusals, and last the absence of the connector.
Diagnostic not_attached(const HitFacts& facts, const Snapshot& now) {
  if (!facts.engine_says.empty()) return engine_off(facts);
  for (const ContainerState& container : facts.pod.containers)
    if (!container.waiting.empty())
      return problem("EngineNotRunning",
                     "container " + container.name + " does not run: " + container.waiting + " " +
                         container.waiting_text,
                     "kubectl logs " + facts.pod.view.name + " -n " + facts.pod.view.ns + " -c " +
                         container.name + " --previous");
  for (const ContainerState& container : facts.pod.containers)
    if (!container.ready)
      return perhaps(
          "EngineStarting",
          "no engine is attached; container " + container.name + " is not ready yet",
          "wait: vLLM attaches after loading the model; if vLLM does not attach: kubectl logs " +
              facts.pod.view.name + " -n " + facts.pod.view.ns + " -c " + container.name);
  // larderd keeps the reason of a refusal in its status (fallbacks).
  for (const ctl::Fallback& fallback : now.fallbacks)
    if (fallback.kind == "engines")
      return problem("EngineRefused", "larderd refuses the engine: " + fallback.why,
                     "change the named setting of the pool or of the engine");
  if (now.sessions.refused > 0)
    return problem("EngineRefused",
                   "larderd refused " + base::plural(now.sessions.refused, "engine") +
                       ": the version or the group does not fit",
                   "kubectl logs " + facts.larderd_pod->view.name + " -n " +
                       facts.larderd_pod->view.ns + " -c larder");
  if (now.sessions.opened > 0)
    return problem("EngineGone", "an engine was attached before, and no engine is attached now",
                   "read the log of the engine's container for the reason: kubectl logs");
  if (!facts.adds_flags)
    return problem("NoConnectorFlag",
                   "no engine has ever attached, and the pool leaves the engine's flags alone "
                   "(spec.engine.flags: false)",
                   "give vLLM --kv-transfer-config yourself, or remove spec.engine.flags");
  return problem("NeverAttached", "no engine has ever attached",
                 "an engine with the connector logs lines with \"Larder\": kubectl logs " +
                     facts.pod.view.name + " -n " + facts.pod.view.ns);
}

// The number in the line "chunk_tokens: 256" of the current namespace; 0: unknown.
// The fingerprint is text of "key: value" lines; the connector writes chunk_tokens in it.
std::uint64_t chunk_tokens(const Snapshot& now) {
  for (const ctl::NamespaceState& space : now.namespaces) {
    const std::string key = "\nchunk_tokens: ";
    const std::size_t at = space.fingerprint.find(key);
    if (at == std::string::npos) continue;
    std::uint64_t tokens = 0;
    const char* begin = space.fingerprint.c_str() + at + key.size();
    std::from_chars(begin, space.fingerprint.c_str() + space.fingerprint.size(), tokens);
    if (tokens != 0) return tokens;
  }
  return 0;
}

// Short prompts explain the missing hits alone, so no other cause is listed beside them.
// too_short counts prompts without a whole chunk beyond the hits of vLLM's own prefix cache.
std::optional<Diagnostic> too_short(const Snapshot& now) {
  const ctl::ModelCounts& all = now.all;
  if (static_cast<double>(all.too_short) < kMostlyShort * static_cast<double>(all.requests))
    return std::nullopt;
  const std::uint64_t tokens = chunk_tokens(now);
  return problem(
      "PromptsTooShort",
      grouped(all.too_short) + " of " + grouped(all.requests) + " prompts had less than a chunk" +
          (tokens == 0 ? "" : " of " + grouped(tokens) + " tokens") +
          " beyond the hits of vLLM's own cache (" + grouped(all.asked / all.requests) +
          " tokens on average)",
      "short prompts save little; a smaller spec.chunkTokens of the pool makes chunks smaller");
}

// Only clients know whether salts differ; larderd gets salts as parts of hashes.
// A salt is an intended separation: where hits come nevertheless, it is only a note.
std::optional<Diagnostic> salted(const Snapshot& now, Weight weight) {
  if (now.all.salted == 0) return std::nullopt;
  return Diagnostic{weight, "Salted",
                    grouped(now.all.salted) + " of " + grouped(now.all.requests) +
                        " requests carried a cache_salt: such requests hit only KV that was "
                        "computed with the same salt",
                    "give requests that may share a cache the same cache_salt, or no salt; a salt "
                    "for each user or request prevents sharing"};
}

// For prompts that are long enough and have no hits: known causes first, then the remaining ones.
// The last finding, NeverRepeated, is shown only where no other problem explains the missing hits.
Findings few_hits(const HitFacts& facts, const Snapshot& now) {
  Findings found;
  if (auto finding = too_short(now)) return {*finding};
  if (now.loads_failed > 0)
    found.push_back(problem("LoadsFail",
                            grouped(now.loads_failed) + " loads failed, " +
                                grouped(now.checksum_failures) + " by checksum",
                            "the engine's log names each; if only one node has checksum failures, "
                            "test the memory of the node"));
  const std::uint64_t refused = now.memory.refused_no_space + now.memory.refused_cap;
  if (now.all.stored == 0 && refused > 0)
    found.push_back(
        problem("NothingStored",
                "no chunk could be stored: " + grouped(refused) + " stores were refused for room",
                "raise spec.memory.size: memory must have room for several chunks"));
  // A consumer of a disaggregated engine loads and never stores.
  else if (now.all.stored == 0)
    found.push_back(perhaps("NothingStored", "the engine has stored no chunk yet",
                            "an engine with kv_role kv_consumer never stores"));
  // More evictions than chunks: the content of memory has changed at least once since the start.
  if (now.memory.evicted.capacity > now.memory.chunks)
    found.push_back(perhaps("EvictedBeforeUse",
                            grouped(now.memory.evicted.capacity) +
                                " chunks were evicted for room, and memory has " +
                                grouped(now.memory.chunks) + " chunks",
                            "raise spec.memory.size, or add spec.disk or a backend"));
  // Only placement Sidecar: on a node the pods share one larderd.
  const bool shares = facts.has_backend || facts.by_node || !now.peers.place.empty();
  if (!shares && !facts.others.empty())
    found.push_back(perhaps(
        "NotShared",
        "this pod does not find chunks of the " + base::plural(facts.others.size(), "other pod") +
            " of the pool: in placement Sidecar pods share through peers or a backend, and the "
            "pool "
            "has neither",
        "add spec.peers or spec.backendRef (kubectl explain cachepool.spec.peers), or placement "
        "Node"));
  if (auto finding = salted(now, Weight::kPerhaps)) found.push_back(*finding);
  if (found.empty() || !has_problem(found))
    found.push_back(
        perhaps("NeverRepeated",
                grouped(now.all.requests) + " prompts were looked up (" +
                    grouped(now.all.asked / now.all.requests) +
                    " tokens on average), and no prompt began as an earlier prompt did",
                "the first chunk must be equal to the last token: keep changing text (time, user, "
                "request id) out of the "
                "beginning of the prompt; try one prompt twice (python -m larder.query_twice)"));
  return found;
}

void add(Findings& to, Findings more) {
  to.insert(to.end(), more.begin(), more.end());
}

// A larderd that reaches some peers serves their chunks; without any, each engine has its own.
std::optional<Diagnostic> apart_from_peers(const HitFacts& facts, const Snapshot& now) {
  const ctl::TierState& peers = now.peers;
  if (peers.place.empty()) return std::nullopt;
  if (peers.servers == 0 && facts.others.empty()) return std::nullopt;  // the pool has one larderd
  if (peers.servers == 0)
    return perhaps("NoPeers", "larderd finds no peer at " + peers.place,
                   "check the DNS of the pod, and whether the other pods have peers: "
                   "kubectl get endpointslices -n " +
                       facts.pod.view.ns + " -l kubernetes.io/service-name=larder-" +
                       facts.pod.view.pool + "-peers");
  if (peers.servers_reachable >= peers.servers && peers.reason.empty()) return std::nullopt;
  return perhaps("PeersUnreachable",
                 "larderd reaches " + grouped(peers.servers_reachable) + " of " +
                     base::plural(peers.servers, "peer") +
                     (peers.reason.empty() ? "" : ": " + peers.reason),
                 "NetworkPolicies must let port 9466 through between the pods of the pool; the "
                 "condition PeersReachable of the pool tells of certificates");
}

// A tier that serves reads and refuses writes is only "perhaps": hits may still come.
// The order is that of the data path: namespace, backend, disk, engine, requests.
Findings of_attached(const HitFacts& facts, const Snapshot& now) {
  if (has_no_namespace(now)) {
    if (!facts.engine_says.empty()) return {engine_off(facts)};
    return {
        perhaps("WeightsBeingRead",
                "the engine is attached and has no namespace yet: the engine reads its weights to "
                "name the namespace",
                "wait, then send a prompt; the engine's log has lines with \"Larder: weights\"")};
  }
  Findings found = namespace_findings(now, facts.others);
  if (facts.has_backend && now.backend.serving && !now.backend.reason.empty())
    found.push_back(perhaps(
        "BackendDegraded",
        "larderd reads from the backend and cannot use the backend fully: " + now.backend.reason,
        "if the server is full, set maxmemory-policy allkeys-lru, or raise maxmemory"));
  else if (facts.has_backend && !now.backend.reason.empty())
    found.push_back(problem("BackendDown", "the backend does not serve: " + now.backend.reason,
                            "kubectl larder backend check says more"));
  if (auto finding = apart_from_peers(facts, now)) found.push_back(*finding);
  if (!now.disk.place.empty() && !now.disk.reason.empty())
    found.push_back(perhaps("DiskDegraded", "the disk tier is degraded: " + now.disk.reason,
                            "read the log of the container larder"));
  // One silent engine of several is the affair of that engine; all silent ones stop the cache.
  const bool all_silent = std::ranges::all_of(now.sessions.attached, &ctl::SessionState::silent);
  if (all_silent)
    found.push_back(problem("EngineSilent", "the engine is attached and its heartbeat has stopped",
                            "check whether the engine is stopped or starved of CPU"));
  const ctl::ModelCounts& all = now.all;
  if (all.requests == 0) {
    found.push_back(perhaps("NoRequests",
                            "no prompt has been looked up since larderd started, " +
                                base::seconds_text(now.uptime_seconds) + " ago",
                            "send a prompt, and check whether the Service reaches this pod"));
  } else if (static_cast<double>(all.hit) <
             kFewHits * static_cast<double>(std::max<std::uint64_t>(all.asked, 1))) {
    add(found, few_hits(facts, now));
  } else {
    found.push_back({Weight::kNote, "Hits",
                     "the cache has hits: " + hit_ratio(all) +
                         " of the prompt tokens asked for, in " + grouped(all.requests_hit) +
                         " of " + grouped(all.requests) + " requests",
                     ""});
    if (auto finding = salted(now, Weight::kNote)) found.push_back(*finding);
  }
  return found;
}

}  // namespace

// Whole percent, as in the pool's status.
std::string hit_ratio(const ctl::ModelCounts& counts) {
  return counts.asked == 0 ? "-" : std::to_string(counts.hit * 100 / counts.asked) + "%";
}

bool has_no_namespace(const Snapshot& now) {
  return std::ranges::all_of(now.sessions.attached, [](const ctl::SessionState& session) {
    return session.space.empty();
  });
}

// The text is that of shim/python/larder/vllm/fail_safe.py: a change there needs a change here.
std::string why_off(const std::string& log) {
  constexpr std::string_view kOff = "Larder is off for this engine: ";
  const std::size_t at = log.rfind(kOff);  // the last: a restarted engine may have another reason
  if (at == std::string::npos) return "";
  const std::size_t begin = at + kOff.size();
  return base::printable(log.substr(begin, std::min(log.find('\n', begin) - begin, kMostLine)));
}

// The checks go from outside to inside; the first failure hides the rest.
Findings why_no_hits(const HitFacts& facts) {
  if (std::optional<Diagnostic> down = larderd_down(facts)) return {*down};
  if (facts.larderd == nullptr && facts.not_asked.code() == Code::kOutOfRange)
    return {{Weight::kNote, "NotAsked", facts.not_asked.text(), ""}};
  if (facts.larderd == nullptr)
    return {problem(
        "LarderdNotAsked",
        "larderd runs, but does not answer through the API server: " + facts.not_asked.text(),
        "you need the right to get pods/proxy, and NetworkPolicies must let the API server reach "
        "port 9464: " +
            facts.larderd_pod->ask_by_hand())};
  const Snapshot& now = *facts.larderd;
  Findings found =
      now.sessions.attached.empty() ? Findings{not_attached(facts, now)} : of_attached(facts, now);
  std::ranges::stable_sort(found, {}, &Diagnostic::weight);
  return found;
}

}  // namespace larder::kubectl
