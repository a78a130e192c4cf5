#include "operator/reconcile/backend_secrets.h"

#include <array>
#include <cstdint>

namespace larder::reconcile {
namespace {

using api::Object;

std::string called(const SecretFile& file, const std::string& ns) {
  return "Secret " + file.secret + " of namespace " + ns + " (" + file.field + ")";
}

}  // namespace

Result<std::string> decode_base64(std::string_view text) {
  const Status wrong(Code::kInvalidArgument, "is no base64");
  if (text.size() % 4 != 0) return wrong;
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  std::size_t padding = 0;
  for (const char c : text) {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '=') {
      ++padding;
      continue;
    }
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos || padding > 0) return wrong;
    bits = (bits << 6 | static_cast<std::uint32_t>(digit)) & 0xffffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return padding > 2 ? Result<std::string>(wrong) : Result<std::string>(std::move(bytes));
}

std::vector<SecretFile> secret_files(const api::BackendSpec& spec) {
  std::vector<SecretFile> files;
  if (spec.password) files.push_back({"spec.password", spec.password->name, spec.password->key, "backend.password_file"});
  if (spec.sentinel_password)
    files.push_back(
        {"spec.sentinelPassword", spec.sentinel_password->name, spec.sentinel_password->key, "backend.sentinel_password_file"});
  if (!spec.tls.enabled) return files;
  if (!spec.tls.ca_secret.empty()) files.push_back({"spec.tls.caSecret", spec.tls.ca_secret, "ca.crt", "backend.ca_file"});
  if (!spec.tls.client_secret.empty()) {
    files.push_back({"spec.tls.clientSecret", spec.tls.client_secret, "tls.crt", "backend.cert_file"});
    files.push_back({"spec.tls.clientSecret", spec.tls.client_secret, "tls.key", "backend.key_file"});
  }
  return files;
}

BackendSecrets read_secrets(k8s::ApiClient& client, const api::CacheBackend& backend) {
  BackendSecrets secrets;
  for (const SecretFile& file : secret_files(backend.spec)) {
    const Result<Object> secret = client.get(k8s::resources::kSecrets, backend.ns, file.secret);
    if (!secret.ok() && secret.status().code() == Code::kNotFound) {
      secrets.missing = "there is no " + called(file, backend.ns) + ": make it, with key " + file.key;
      return secrets;
    }
    if (!secret.ok() && secret.status().code() == Code::kPermissionDenied) {
      secrets.unreadable = "the operator may not read " + called(file, backend.ns) +
                           ": list it in the chart's backendSecrets. The sidecars mount it themselves and are not concerned";
      return secrets;
    }
    if (!secret.ok()) {
      secrets.unreadable = called(file, backend.ns) + " could not be read: " + secret.status().to_string();
      return secrets;
    }
    const Object& data = api::at(*secret, "data");
    const auto value = data.is_object() ? data.find(file.key) : data.end();
    if (!data.is_object() || value == data.end() || !value->is_string()) {
      secrets.missing = called(file, backend.ns) + " has no key " + file.key + ": add it, or name the right key";
      return secrets;
    }
    Result<std::string> bytes = decode_base64(value->get_ref<const std::string&>());
    if (!bytes.ok() || bytes->empty()) {
      secrets.missing = called(file, backend.ns) + " has nothing under key " + file.key;
      return secrets;
    }
    secrets.bytes[file.option] = std::move(*bytes);
  }
  return secrets;
}

}  // namespace larder::reconcile
