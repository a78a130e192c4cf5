// The Secrets of a backend, read by name and only from the backend's namespace: their values, or
// the missing part and the remedy. Without the permission to read, the status follows the sidecars.
//
// Thread-safe. Values go only into the connection of the check, never into logs, conditions or
// errors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/api/cache_backend.h"
#include "operator/k8s/api_client.h"

namespace larder::reconcile {

struct SecretFile {
  std::string field;        // e.g. spec.password
  std::string secret, key;  // in the backend's namespace
  std::string option;       // option of larderd: backend.password_file
};

// The Secrets that a spec needs. Pure.
std::vector<SecretFile> secret_files(const api::BackendSpec& spec);

struct BackendSecrets {
  std::map<std::string, std::string> bytes;  // values found, by option
  std::string missing;                       // names Secret, key and remedy; empty: all found
  std::string unreadable;                    // why a Secret could not be read; empty: all were read
};

BackendSecrets read_secrets(k8s::ApiClient& client, const api::CacheBackend& backend);

}  // namespace larder::reconcile
