// Credentials: address of the API server, and the proofs of identity of server and client.
// CredentialSource reads credentials and follows their rotation.
//
// Thread-safe. Credentials are immutable values. No error text has a token or a key.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::k8s {

struct Credentials {
  std::string server = {};           // "https://10.96.0.1:443", without a final slash
  std::string ca_pem = {};           // empty: the authorities of the image
  std::string certificate_pem = {};  // client certificate with key_pem; empty: none
  std::string key_pem = {};
  std::string token = {};        // bearer; empty: none
  std::string server_name = {};  // expected in the server's certificate; empty: the host
  std::string proxy = {};        // empty: HTTPS_PROXY and NO_PROXY of the environment
  bool verify = true;
  std::uint64_t tls_version = 0;  // a change makes earlier connections unusable
};

// False for a token with a line end inside, which would end its header field.
bool is_one_line(const std::string& token);

inline constexpr const char* kServiceAccountFolder =
    "/var/run/secrets/kubernetes.io/serviceaccount";

class CredentialSource {
 public:
  // The service account of a pod: token and ca.crt in `folder`, the server in
  // KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
  static Result<std::unique_ptr<CredentialSource>> in_cluster(
      const std::string& folder = kServiceAccountFolder);
  // A kubeconfig file (YAML or JSON). Empty `context`: the file's current-context. Refuses, by
  // name, entries that run a program (exec, auth-provider), user names with passwords, and
  // impersonation.
  static Result<std::unique_ptr<CredentialSource>> from_kubeconfig(const std::string& file,
                                                                   const std::string& context = "");

  // The current credentials. Reads changed files again; an unreadable file keeps its earlier text.
  std::shared_ptr<const Credentials> current();

  // A file behind a field of the credentials. The first read returns its error.
  Status follow(const std::string& file, std::string Credentials::*field);

  explicit CredentialSource(Credentials first)
      : now_(std::make_shared<const Credentials>(std::move(first))) {}

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
  std::shared_ptr<const Credentials> now_;  // shared: running requests keep their credentials
  std::vector<Followed> followed_;
};

}  // namespace larder::k8s
