// The objects of a pool with peers, in both placements. The addresses of a headless Service are the
// members; a NetworkPolicy guards the port of peers. All objects have the name peers_name().
//
// Pure; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "operator/desired/port_guard.h"

namespace larder::desired {

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
// Only peers of the pool reach the port of peers. `backend`: the pool's backend if the backend
// exists; the policy leaves the ports of its plug-in out. REQUIRES: not Isolation::kMixed.
api::Object peers_policy(const api::CachePool& pool,
                         const std::optional<api::CacheBackend>& backend, Isolation isolation);
// The Secret with the given data, for a first write or a renewal.
api::Object peers_secret_object(const api::CachePool& pool, api::Object data);

}  // namespace larder::desired
