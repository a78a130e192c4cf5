// CertificateLoader: every replica's care that it serves the newest certificate: looks where it comes from, again and again and when it is
// told to, on a thread of its own, and gives what is new to the acceptor. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "operator/k8s/api_client.h"
#include "operator/webhook/bell.h"
#include "operator/webhook/tls_acceptor.h"

namespace larder::webhook {

using ReadCertificate = std::function<Result<KeyPair>()>;

// From the Secret that the leader keeps; `client` outlives what is returned.
ReadCertificate certificate_in_secret(k8s::ApiClient& client, std::string ns, std::string name);
// From tls.crt and tls.key of a folder, as cert-manager's Secret is mounted: a rotation shows the two at once or not at all.
ReadCertificate certificate_in_directory(std::string directory);

class CertificateLoader {
 public:
  static constexpr unsigned kLookMs = 10'000;  // while one is served
  static constexpr unsigned kRetryMs = 500;    // while none is

  // `acceptor` outlives the loader. Looks at once.
  CertificateLoader(ReadCertificate read, TlsAcceptor& acceptor, unsigned look_ms = kLookMs);
  ~CertificateLoader();

  // What it reads may have changed: it looks at once.
  void look_soon() { changed_.ring(); }

 private:
  void look();
  void loop(const std::stop_token& stop, unsigned look_ms);

  const ReadCertificate read_;
  TlsAcceptor& acceptor_;
  KeyPair served_;
  Bell changed_;
  std::jthread thread_;
};

}  // namespace larder::webhook
