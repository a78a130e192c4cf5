#include "operator/reconcile/ports_guarded.h"

#include <string>
#include <vector>

#include "operator/api/names.h"
#include "operator/desired/mooncake.h"
#include "operator/reconcile/objects_applied.h"

namespace larder::reconcile {
namespace {

std::string mooncake_ports() {
  return std::to_string(api::kMooncakeFirstPort) + "-" + std::to_string(api::kMooncakeLastPort);
}

}  // namespace

// The order is that of severity: no policy applies to pods with hostNetwork.
Condition ports_guarded(const PoolFacts& facts) {
  std::vector<std::string> open;
  for (const PodView& pod : facts.pods)
    if (pod.host_network) open.push_back(pod.name);
  if (!open.empty())
    return {"PortsGuarded", Truth::kFalse, "HostNetwork",
            of_pods(open, facts.pods.size()) +
                " use the network of the node: Mooncake's ports there have no password, and no "
                "NetworkPolicy guards the ports. Remove hostNetwork, or guard the ports " +
                mooncake_ports() + " of the nodes by a firewall"};
  if (facts.isolation == desired::Isolation::kMixed)
    return {"PortsGuarded", Truth::kFalse, "MixedPolicies",
            "no NetworkPolicy guards Mooncake's ports, because policies of the namespace select "
            "some pods of the pool and not others: let your policies select all pods of the pool, "
            "or none"};
  Condition applied = objects_applied(facts.brought, "pool", "NetworkPolicy");
  applied.type = "PortsGuarded";
  if (applied.status == Truth::kFalse) return applied;
  return {"PortsGuarded", Truth::kTrue, "Guarded",
          "NetworkPolicy " + desired::mooncake_name(*facts.pool) + " guards Mooncake's ports " +
              mooncake_ports() + ". The policy needs a cluster network that enforces policies"};
}

}  // namespace larder::reconcile
