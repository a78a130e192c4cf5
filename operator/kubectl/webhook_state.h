// Whether the API server asks Larder's webhook about the pods of a namespace, read from the webhook's configuration. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/object.h"

namespace larder::kubectl {

inline constexpr const char* kWebhookName = "pods.larder.dev";                 // of pods with the annotation
inline constexpr const char* kNamespaceWebhookName = "namespaces.larder.dev";  // of other pods, where their namespace asks

struct WebhookState {
  bool there = false;
  std::string created;         // of its configuration, RFC 3339
  bool has_authority = false;  // a caBundle: without one every call fails
  bool takes_namespace = true;
  std::string service, service_namespace;
  std::string url = {};  // in place of a Service, where the operator runs outside of the cluster
};

// `configurations`: MutatingWebhookConfigurations; `space`: the pod's Namespace, null: unknown, all is taken. `name`: one of those above.
WebhookState webhook_seen(const std::vector<api::Object>& configurations, const api::Object& space,
                          std::string_view name = kWebhookName);

// The endpoints of the webhook's Service.
struct ServingState {
  int ready = -1;  // endpoints that are ready; -1: not known
  int port = 0;    // of the operator's pods, where the API server asks; 0: not known
};
// `slices`: EndpointSlices of the Service; `service`: null, not known, where the slices say the port.
ServingState serving_seen(const std::vector<api::Object>& slices, const api::Object& service);

// A label selector of Kubernetes, against an object's labels.
bool selects(const api::Object& selector, const api::Object& object);

}  // namespace larder::kubectl
