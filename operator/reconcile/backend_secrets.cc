#include "operator/reconcile/backend_secrets.h"

#include <optional>

#include "operator/api/base64.h"

namespace larder::reconcile {
namespace {

using api::Object;

std::string called(const SecretFile& file, const std::string& ns) {
  return "Secret " + file.secret + " of namespace " + ns + " (" + file.field + ")";
}

}  // namespace

// The keys of TLS Secrets are those of kubernetes.io/tls and of cert-manager: ca.crt, tls.crt,
// tls.key.
std::vector<SecretFile> secret_files(const api::BackendSpec& spec) {
  std::vector<SecretFile> files;
  if (spec.password)
    files.push_back(
        {"spec.password", spec.password->name, spec.password->key, "backend.password_file"});
  if (spec.sentinel_password)
    files.push_back({"spec.sentinelPassword", spec.sentinel_password->name,
                     spec.sentinel_password->key, "backend.sentinel_password_file"});
  if (!spec.tls.enabled) return files;
  if (!spec.tls.ca_secret.empty())
    files.push_back({"spec.tls.caSecret", spec.tls.ca_secret, "ca.crt", "backend.ca_file"});
  if (!spec.tls.client_secret.empty()) {
    files.push_back(
        {"spec.tls.clientSecret", spec.tls.client_secret, "tls.crt", "backend.cert_file"});
    files.push_back(
        {"spec.tls.clientSecret", spec.tls.client_secret, "tls.key", "backend.key_file"});
  }
  return files;
}

// Ends at the first fault: one message with one remedy at a time. `unreadable` is no fault of the
// backend, since larderd mounts the Secrets without the operator.
BackendSecrets read_secrets(k8s::ApiClient& client, const api::CacheBackend& backend) {
  BackendSecrets secrets;
  for (const SecretFile& file : secret_files(backend.spec)) {
    // A GET of one Secret by name: the chart's role may list the names in backendSecrets, and the
    // operator keeps no cache of Secrets.
    const Result<Object> secret = client.get(k8s::resources::kSecrets, backend.ns, file.secret);
    if (!secret.ok() && secret.status().code() == Code::kNotFound) {
      secrets.missing =
          "there is no " + called(file, backend.ns) + ": create the Secret, with key " + file.key;
      return secrets;
    }
    if (!secret.ok() && secret.status().code() == Code::kPermissionDenied) {
      secrets.unreadable = "the operator may not read " + called(file, backend.ns) +
                           ": list the Secret in the chart's backendSecrets. The sidecars mount "
                           "the Secret themselves and are not affected";
      return secrets;
    }
    if (!secret.ok()) {  // the API server is away: the next check decides
      secrets.unreadable =
          called(file, backend.ns) + " could not be read: " + secret.status().to_string();
      return secrets;
    }
    const Object& data = api::at(*secret, "data");
    const auto value = data.is_object() ? data.find(file.key) : data.end();
    if (!data.is_object() || value == data.end() || !value->is_string()) {
      secrets.missing = called(file, backend.ns) + " has no key " + file.key +
                        ": add the key, or name the right key";
      return secrets;
    }
    std::optional<std::string> bytes = api::from_base64(value->get_ref<const std::string&>());
    // An empty value counts as missing, so the message names Secret and key.
    if (!bytes || bytes->empty()) {
      secrets.missing = called(file, backend.ns) + " has no value under key " + file.key;
      return secrets;
    }
    secrets.bytes[file.option] = std::move(*bytes);
  }
  return secrets;
}

}  // namespace larder::reconcile
