// The API server asks webhooks that a test serves itself about each new pod.
#pragma once

#include <string>
#include <vector>

#include "operator/k8s/api_client.h"

namespace larder::kube_test {

// One webhook, at `address` ("127.0.0.1:PORT"). `when`: a CEL expression; empty: always.
inline api::Object webhook_entry(const std::string& name, const std::string& address,
                                 const std::string& when = "") {
  api::Object entry = {
      {"name", name},
      {"clientConfig",
       {{"url", "https://localhost" + address.substr(address.rfind(':')) + "/mutate-v1-pod"}}},
      {"rules",
       {{{"apiGroups", {""}},
         {"apiVersions", {"v1"}},
         {"operations", {"CREATE"}},
         {"resources", {"pods"}},
         {"scope", "Namespaced"}}}},
      {"failurePolicy", "Fail"},  // failures must be visible
      {"sideEffects", "NoneOnDryRun"},
      {"reinvocationPolicy", "IfNeeded"},
      {"timeoutSeconds", 5},
      {"admissionReviewVersions", {"v1"}}};
  if (!when.empty()) entry["matchConditions"] = {{{"name", "annotated"}, {"expression", when}}};
  return entry;
}

// As the configuration "larder", whose caBundle a CertificateManager writes.
inline Status configure_webhooks(k8s::ApiClient& client, const std::vector<api::Object>& webhooks) {
  return client
      .create(k8s::resources::kWebhooks, {{"apiVersion", "admissionregistration.k8s.io/v1"},
                                          {"kind", "MutatingWebhookConfiguration"},
                                          {"metadata", {{"name", "larder"}}},
                                          {"webhooks", webhooks}})
      .status();
}

}  // namespace larder::kube_test
