#include "operator/reconcile/ports_guarded.h"

#include <string>
#include <vector>

#include "operator/desired/plugin.h"
#include "operator/reconcile/objects_applied.h"

namespace larder::reconcile {
namespace {

// "24000-24099"
std::string range_text(api::PortRange ports) {
  return std::to_string(ports.first) + "-" + std::to_string(ports.last);
}

}  // namespace

// The order is that of severity: no policy applies to pods with hostNetwork.
Condition ports_guarded(const PoolFacts& facts, const api::Plugin& plugin) {
  const std::string ports = std::string(plugin.service) + "'s ports";
  std::vector<std::string> open;
  for (const PodView& pod : facts.pods)
    if (pod.host_network) open.push_back(pod.name);
  if (!open.empty())
    return {"PortsGuarded", Truth::kFalse, "HostNetwork",
            of_pods(open, facts.pods.size()) + " use the network of the node: " + ports +
                " there have no password, and no NetworkPolicy guards the ports. Remove "
                "hostNetwork, or guard the ports " +
                range_text(plugin.ports) + " of the nodes by a firewall"};
  if (facts.isolation == desired::Isolation::kMixed)
    return {"PortsGuarded", Truth::kFalse, "MixedPolicies",
            "no NetworkPolicy guards " + ports +
                ", because policies of the namespace select some pods of the pool and not others: "
                "let your policies select all pods of the pool, or none"};
  Condition applied = objects_applied(facts.brought, "pool", "NetworkPolicy");
  applied.type = "PortsGuarded";
  if (applied.status == Truth::kFalse) return applied;
  return {"PortsGuarded", Truth::kTrue, "Guarded",
          "NetworkPolicy " + desired::plugin_policy_name(*facts.pool, plugin) + " guards " + ports +
              " " + range_text(plugin.ports) +
              ". The policy needs a cluster network that enforces policies"};
}

}  // namespace larder::reconcile
