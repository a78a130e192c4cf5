#include "operator/api/names.h"
#include "operator/desired/backend_objects.h"
#include "operator/desired/object_head.h"

namespace larder::desired {

using api::Object;

// Clients of the server: pods of the namespace with a larderd, and the operator, which checks the
// server. The server opens no connections.
Object network_policy(const api::CacheBackend& backend, const Defaults& defaults) {
  const Object of_a_pool =
      Object::array({Object{{"key", api::kPoolLabel}, {"operator", "Exists"}}});
  Object from = Object::array({Object{{"podSelector", {{"matchExpressions", of_a_pool}}}}});
  if (!defaults.operator_namespace.empty()) {
    // The name of a namespace is a label since Kubernetes 1.21, set by the API server itself.
    const Object ns{{"kubernetes.io/metadata.name", defaults.operator_namespace}};
    const Object app{{"app.kubernetes.io/name", "larder"}};
    from.push_back(Object{{"namespaceSelector", {{"matchLabels", ns}}},
                          {"podSelector", {{"matchLabels", app}}}});
  }
  const Object ports = Object::array({Object{{"port", api::kServerPort}, {"protocol", "TCP"}}});
  Object policy = object_head("networking.k8s.io/v1", "NetworkPolicy", backend);
  policy["spec"] =
      Object{{"podSelector", {{"matchLabels", pod_labels(backend)}}},
             {"policyTypes", Object::array({"Ingress", "Egress"})},
             {"ingress", Object::array({Object{{"from", std::move(from)}, {"ports", ports}}})},
             {"egress", Object::array()}};
  return policy;
}

}  // namespace larder::desired
