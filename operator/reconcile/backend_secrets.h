// The Secrets that a backend names: of its own namespace, never another's; what is in them, or what is missing and what to do.
//
// Thread-safe. Values go nowhere but into the check's connection: not into logs, conditions or errors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/api/cache_backend.h"
#include "operator/k8s/api_client.h"

namespace larder::reconcile {

struct SecretFile {
  std::string field;        // spec.password, say
  std::string secret, key;  // of the backend's namespace
  std::string option;       // larderd's: backend.password_file
};

// What a backend needs, by its spec. Pure.
std::vector<SecretFile> secret_files(const api::BackendSpec& spec);

struct BackendSecrets {
  std::map<std::string, std::string> bytes;  // by option; only what was found
  std::string missing;                       // empty: nothing. Else a sentence that names Secret and key, and says what to do
  std::string unreadable;  // empty: all could be read. Else why not: the operator may not, or could not just now
};

BackendSecrets read_secrets(k8s::ApiClient& client, const api::CacheBackend& backend);

// Standard base64 with padding, as in a Secret's data; kInvalidArgument otherwise.
Result<std::string> decode_base64(std::string_view text);

}  // namespace larder::reconcile
