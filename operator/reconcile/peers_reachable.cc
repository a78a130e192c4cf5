#include "operator/reconcile/peers_reachable.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "operator/desired/peer_objects.h"
#include "operator/reconcile/objects_applied.h"

namespace larder::reconcile {
namespace {

constexpr const char* kType = "PeersReachable";

Condition no(const char* reason, std::string message) {
  return {kType, Truth::kFalse, reason, std::move(message)};
}

// Why the peers have no certificates of the operator.
std::optional<Condition> without_certificates(const PoolFacts& facts) {
  const PeerSecret& secret = facts.peer_secret;
  if (!secret.taken.empty()) return no("NameTaken", secret.taken);
  if (secret.waiting)
    return Condition{kType, Truth::kUnknown, "Waiting",
                     "the Secret of an earlier pool of this name is still being deleted"};
  if (secret.status.ok()) return std::nullopt;
  if (secret.status.code() == Code::kPermissionDenied)
    return no("SecretRefused",
              "the operator may not write Secret " + desired::peers_name(*facts.pool) +
                  " of namespace " + facts.pool->ns +
                  " with the certificates of the peers: list the namespace in the chart's "
                  "peerSecrets, or name a Secret of your own in spec.peers.tls.secretName. Until "
                  "then each larderd serves its own engines only");
  return no("SecretNotKept", secret.status.to_string() + ". The operator tries again");
}

// Placement Node has ObjectsApplied for all of its objects.
std::optional<Condition> without_objects(const PoolFacts& facts) {
  if (facts.pool->spec.placement == api::Placement::kNode) return std::nullopt;
  Condition applied = objects_applied(facts.brought, "pool", "Service and NetworkPolicy");
  if (applied.status == Truth::kTrue) return std::nullopt;
  applied.type = kType;
  return applied;
}

struct Pods {
  std::size_t asked = 0;           // larderd with peers that answered
  std::uint64_t known = 0;         // the most peers of one larderd
  std::vector<std::string> apart;  // pods that do not reach all of their peers
  std::string first;               // the words about the first of them
};

Pods judge(const PoolFacts& facts) {
  Pods pods;
  for (const PodView& pod : facts.pods) {
    const auto answer = facts.heard.answers.find(pod.uid);
    if (answer == facts.heard.answers.end() || !answer->second.peers) continue;
    const LarderdAnswer::Peers& peers = *answer->second.peers;
    ++pods.asked;
    pods.known = std::max(pods.known, peers.known);
    if (peers.reachable >= peers.known && peers.reason.empty()) continue;
    if (pods.apart.empty())
      pods.first = pod.name + " reaches " + std::to_string(peers.reachable) + " of " +
                   std::to_string(peers.known) + " peers" +
                   (peers.reason.empty() ? "" : ": " + quoted(peers.reason));
    pods.apart.push_back(pod.name);
  }
  return pods;
}

// A policy of the operator cannot be right for pods of both kinds (desired/peer_objects.h).
std::string about_policy(const PoolFacts& facts) {
  if (facts.isolation != desired::Isolation::kMixed) return "";
  return ". The pool has no NetworkPolicy for the port of peers, because policies of the namespace "
         "select some of its pods and not others: let your policies select all pods of the pool, "
         "or none";
}

Condition reach(const PoolFacts& facts) {
  const Pods pods = judge(facts);
  if (facts.heard.answers.empty())
    return {kType, Truth::kUnknown, "NotAsked", "no larderd has answered yet"};
  if (pods.asked == 0)
    return {kType, Truth::kUnknown, "RestartNeeded",
            "no larderd that answered has peers yet: pods get peers with a restart"};
  if (!pods.apart.empty())
    return no("Unreachable", of_pods(pods.apart, facts.pods.size()) + ": " + pods.first +
                                 ". Engines go on without the chunks of these peers. A "
                                 "NetworkPolicy must let port 9466 through between the pods");
  if (pods.known == 0)
    return {kType, Truth::kTrue, "Alone", "no larderd of the pool has another larderd to ask"};
  return {
      kType, Truth::kTrue, "Reachable",
      "every larderd that answered reaches its peers, " + std::to_string(pods.known) + " at most"};
}

}  // namespace

Condition peers_reachable(const PoolFacts& facts) {
  if (std::optional<Condition> why = without_certificates(facts)) return *why;
  if (std::optional<Condition> why = without_objects(facts)) return *why;
  Condition condition = reach(facts);
  condition.message += about_policy(facts);
  return condition;
}

}  // namespace larder::reconcile
