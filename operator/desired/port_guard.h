// NetworkPolicies that guard some ports of a pod and leave its other ports alone.
//
// A NetworkPolicy has no rule that closes one port: it closes every port that it does not name. The
// engine's ports are unknown to Larder, so a policy names all others. The policies of one pod add
// up: each leaves out the ports that another of them guards. Pure; thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"
#include "operator/api/names.h"

namespace larder::desired {

// How far other NetworkPolicies of the namespace select the pods with guarded ports. A pod that any
// policy selects accepts only the connections that some policy allows.
enum class Isolation {
  kNone,   // no other policy selects any of the pods
  kAll,    // other policies select each of the pods
  kMixed,  // other policies select some of the pods
};

using api::PortRange;
inline constexpr PortRange kPeersPorts{api::kPeersPort, api::kPeersPort};

// All ports of the pool's pods that a policy of Larder guards, in ascending order.
std::vector<PortRange> guarded_ports(const api::CachePool& pool,
                                     const std::optional<api::CacheBackend>& backend);

// The spec of a policy for the pods with the labels `pods`: only `from` reaches the ports `own`.
// kNone: keeps all TCP ports outside of `guarded`, and all UDP ports, open. kAll: allows `own`
// alone; the other policies decide about other ports. REQUIRES: not kMixed, where any policy would
// close or open ports of some pods.
api::Object port_guard(api::Object pods, PortRange own, api::Object from,
                       const std::vector<PortRange>& guarded, Isolation isolation);

}  // namespace larder::desired
