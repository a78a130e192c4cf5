// Whether the API server asks Larder's webhook about the pods of a namespace, read from the webhook's configuration. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::kube {

inline constexpr const char* kWebhookName = "pods.larder.dev";

struct WebhookSeen {
  bool there = false;
  std::string created;         // of its configuration, RFC 3339
  bool has_authority = false;  // a caBundle: without one every call fails
  bool takes_namespace = true;
  std::string service, service_namespace;
};

// `configurations`: MutatingWebhookConfigurations; `space`: the pod's Namespace, null: unknown, all is taken.
WebhookSeen webhook_seen(const std::vector<api::Object>& configurations, const api::Object& space);

// A label selector of Kubernetes, against an object's labels.
bool selects(const api::Object& selector, const api::Object& object);

}  // namespace larder::kube
