// Credentials: where the API server is, how it proves itself to us and we to it. CredentialSource reads them and follows rotation.
//
// Thread-safe. Credentials are immutable values; tokens and keys are in no error text.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::k8s {

struct Credentials {
  std::string server = {};           // "https://10.96.0.1:443", without a slash at its end
  std::string ca_pem = {};           // empty: the authorities of the image
  std::string certificate_pem = {};  // our own, with key_pem; empty: none
  std::string key_pem = {};
  std::string token = {};        // bearer; empty: none
  std::string server_name = {};  // expected in the server's certificate; empty: the host
  std::string proxy = {};        // empty: as the environment says (HTTPS_PROXY, NO_PROXY)
  bool verify = true;
  std::uint64_t tls_version = 0;  // another one: connections made before must not be used
};

// A token with a line end inside would end the header field that carries it.
bool is_one_line(const std::string& token);

inline constexpr const char* kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

class CredentialSource {
 public:
  // A pod's service account: token and ca.crt in `folder`, the server in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
  static Result<std::unique_ptr<CredentialSource>> in_cluster(const std::string& folder = kServiceAccountFolder);
  // A kubeconfig file (YAML or JSON). `context`: empty: its current-context. What needs another program (exec, auth-provider),
  // user names with passwords, and impersonation are refused by name.
  static Result<std::unique_ptr<CredentialSource>> from_kubeconfig(const std::string& file, const std::string& context = "");

  // As they are now: files that changed have been read again. Where one cannot be read the earlier text stays.
  std::shared_ptr<const Credentials> current();

  // A file that a field of the credentials comes from. Read once here: its error is returned.
  Status follow(const std::string& file, std::string Credentials::*field);

  explicit CredentialSource(Credentials first) : now_(std::make_shared<const Credentials>(std::move(first))) {}

 private:
  struct Stamp {
    std::uint64_t inode = 0, size = 0, device = 0;
    std::int64_t seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct Followed {
    std::string file;
    std::string Credentials::*field;
    Stamp stamp;
    bool failed = false;
  };

  static Result<Stamp> stamp_of(const std::string& file);
  void take(const Followed& followed, std::string text);

  std::mutex mutex_;
  std::shared_ptr<const Credentials> now_;  // shared: requests under way keep what they began with
  std::vector<Followed> followed_;
};

}  // namespace larder::k8s
