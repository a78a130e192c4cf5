// The objects of a pool with peers, in both placements. The addresses of a headless Service are the
// members; a NetworkPolicy guards the port of peers. All objects have the name peers_name().
//
// Pure; thread-safe.
#pragma once

#include <string>

#include "operator/api/cache_pool.h"

namespace larder::desired {

// How far other NetworkPolicies of the namespace select the pods with peers. A pod that any policy
// selects accepts only the connections that some policy allows.
enum class Isolation {
  kNone,   // no other policy selects any of the pods
  kAll,    // other policies select each of the pods
  kMixed,  // other policies select some of the pods
};

// "larder-POOL-peers". The prefix makes a valid Service of every pool: a Service begins with a
// letter.
std::string peers_name(const api::CachePool& pool);
// Where larderd finds its peers: "dns:larder-POOL-peers.NAMESPACE.svc:9466".
std::string peers_members(const api::CachePool& pool);
// The DNS name in every certificate of the pool: "POOL.NAMESPACE.larder".
std::string peers_server_name(const api::CachePool& pool);
// The Secret with the certificates. REQUIRES: TLS.
std::string peers_secret(const api::CachePool& pool);

// REQUIRES for all below: pool.spec.peers.
// The label of pods whose larderd serves peers.
api::Object peers_labels(const api::CachePool& pool);
api::Object peers_service(const api::CachePool& pool);
// kNone: restricts the port of peers, and keeps all other TCP and UDP ports open. kAll: allows the
// port of peers alone; the other policies decide about other ports. REQUIRES: not kMixed, where any
// policy would close or open ports of some pods.
api::Object peers_policy(const api::CachePool& pool, Isolation isolation);
// The Secret with the given data, for a first write or a renewal.
api::Object peers_secret_object(const api::CachePool& pool, api::Object data);

}  // namespace larder::desired
