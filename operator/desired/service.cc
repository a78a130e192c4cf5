#include "operator/desired/backend_objects.h"
#include "operator/desired/object_head.h"

namespace larder::desired {

// The name of the Service is the host in url_of(): pods of the namespace reach the server by it.
api::Object service(const api::CacheBackend& backend) {
  api::Object service = object_head("v1", "Service", backend);
  const api::Object port{
      {"name", "redis"}, {"port", api::kServerPort}, {"targetPort", "redis"}, {"protocol", "TCP"}};
  service["spec"] = api::Object{{"type", "ClusterIP"},
                                {"selector", pod_labels(backend)},
                                {"ports", api::Object::array({port})}};
  return service;
}

}  // namespace larder::desired
