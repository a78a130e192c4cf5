#include "operator/desired/peer_objects.h"

#include "operator/api/names.h"
#include "operator/desired/object_head.h"

namespace larder::desired {
namespace {

using api::CachePool;
using api::Object;

Object head(std::string_view api_version, std::string_view kind, const CachePool& pool) {
  Object object = object_head(api_version, kind, pool);
  object["metadata"]["name"] = peers_name(pool);
  return object;
}

}  // namespace

std::string peers_name(const CachePool& pool) {
  return pool_name(pool) + "-peers";
}

std::string peers_members(const CachePool& pool) {
  return "dns:" + peers_name(pool) + "." + pool.ns + ".svc:" + std::to_string(api::kPeersPort);
}

std::string peers_server_name(const CachePool& pool) {
  return pool.name + "." + pool.ns + ".larder";
}

std::string peers_secret(const CachePool& pool) {
  return pool.spec.peers->tls_secret.empty() ? peers_name(pool) : pool.spec.peers->tls_secret;
}

Object peers_labels(const CachePool& pool) {
  return Object{{std::string(api::kPeersLabel), pool.name}};
}

// publishNotReadyAddresses: larderd serves before its engine has loaded the model. An engine that
// is not ready for users still has a cache for its peers.
Object peers_service(const CachePool& pool) {
  Object service = head("v1", "Service", pool);
  // appProtocol: a service mesh passes the bytes through.
  const Object port{{"name", "larder-peers"},
                    {"appProtocol", "tcp"},
                    {"port", api::kPeersPort},
                    {"targetPort", api::kPeersPort},
                    {"protocol", "TCP"}};
  service["spec"] = Object{{"type", "ClusterIP"},
                           {"clusterIP", "None"},
                           {"publishNotReadyAddresses", true},
                           {"selector", peers_labels(pool)},
                           {"ports", Object::array({port})}};
  return service;
}

// Pods with hostNetwork ask with the address of their node, which no podSelector matches.
Object peers_policy(const CachePool& pool, const std::optional<api::CacheBackend>& backend,
                    Isolation isolation) {
  Object from = Object::array({Object{{"podSelector", {{"matchLabels", peers_labels(pool)}}}}});
  Object policy = head("networking.k8s.io/v1", "NetworkPolicy", pool);
  policy["spec"] = port_guard(peers_labels(pool), kPeersPorts, std::move(from),
                              guarded_ports(pool, backend), isolation);
  return policy;
}

Object peers_secret_object(const CachePool& pool, Object data) {
  Object secret = head("v1", "Secret", pool);
  secret["data"] = std::move(data);
  return secret;
}

}  // namespace larder::desired
