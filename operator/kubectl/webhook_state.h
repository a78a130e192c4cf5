// Whether the API server asks Larder's webhook about pods of a namespace, from the webhook's
// configuration. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/object.h"

namespace larder::kubectl {

inline constexpr const char* kWebhookName = "pods.larder.dev";  // for pods with the annotation
// If the namespace asks.
inline constexpr const char* kNamespaceWebhookName = "namespaces.larder.dev";

struct WebhookState {
  bool there = false;
  std::string created;         // creation time of the configuration, RFC 3339
  bool has_authority = false;  // has a caBundle, without which every call fails
  bool takes_namespace = true;
  std::string service, service_namespace;
  std::string url = {};  // replaces the Service for an operator outside the cluster
};

// `configurations`: MutatingWebhookConfigurations. `space`: the pod's Namespace; null: unknown,
// every selector matches. `name`: one of the names above.
WebhookState webhook_seen(const std::vector<api::Object>& configurations, const api::Object& space,
                          std::string_view name = kWebhookName);

// The endpoints of the webhook's Service.
struct ServingState {
  int ready = -1;  // ready endpoints; -1: unknown
  int port = 0;    // port of the operator's pods for the API server; 0: unknown
};
// `slices`: EndpointSlices of the Service. `service`: null if unknown; the slices then have the
// port.
ServingState serving_seen(const std::vector<api::Object>& slices, const api::Object& service);

// Whether a label selector of Kubernetes matches an object's labels.
bool selects(const api::Object& selector, const api::Object& object);

}  // namespace larder::kubectl
