#include "operator/desired/peer_objects.h"

#include "operator/api/names.h"
#include "operator/desired/object_head.h"

namespace larder::desired {
namespace {

using api::CachePool;
using api::Object;

constexpr int kLastPort = 65535;

Object head(std::string_view api_version, std::string_view kind, const CachePool& pool) {
  Object object = object_head(api_version, kind, pool);
  object["metadata"]["name"] = peers_name(pool);
  return object;
}

Object ports(const char* protocol, int first, int last) {
  Object range{{"protocol", protocol}, {"port", first}};
  if (last != first) range["endPort"] = last;
  return range;
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

// A NetworkPolicy has no rule that closes one port: it closes every port that it does not name. The
// policy must name the ports of the engine, which Larder does not know, so it names all others.
// Invariant: the policy closes no port beside the port of peers, and opens none that another policy
// closes.
Object peers_policy(const CachePool& pool, Isolation isolation) {
  // Pods with hostNetwork ask with the address of their node, which no podSelector matches.
  const Object pods{{"matchLabels", peers_labels(pool)}};
  Object rules = Object::array(
      {Object{{"from", Object::array({Object{{"podSelector", pods}}})},
              {"ports", Object::array({ports("TCP", api::kPeersPort, api::kPeersPort)})}}});
  if (isolation == Isolation::kNone)
    rules.push_back(Object{{"ports", Object::array({ports("TCP", 1, api::kPeersPort - 1),
                                                    ports("TCP", api::kPeersPort + 1, kLastPort),
                                                    ports("UDP", 1, kLastPort)})}});
  Object policy = head("networking.k8s.io/v1", "NetworkPolicy", pool);
  policy["spec"] = Object{{"podSelector", pods},
                          {"policyTypes", Object::array({"Ingress"})},
                          {"ingress", std::move(rules)}};
  return policy;
}

Object peers_secret_object(const CachePool& pool, Object data) {
  Object secret = head("v1", "Secret", pool);
  secret["data"] = std::move(data);
  return secret;
}

}  // namespace larder::desired
