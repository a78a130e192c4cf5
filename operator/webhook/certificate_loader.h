// CertificateLoader: gives the newest certificate to the acceptor, on every replica. One thread
// reads the source at intervals and on look_soon(). Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "operator/k8s/api_client.h"
#include "operator/webhook/bell.h"
#include "operator/webhook/tls_acceptor.h"

namespace larder::webhook {

using ReadCertificate = std::function<Result<pki::KeyPair>()>;

// Reads from the leader's Secret. `client` outlives the returned function.
ReadCertificate certificate_in_secret(k8s::ApiClient& client, std::string ns, std::string name);
// Reads tls.crt and tls.key of a folder, the mount of cert-manager's Secret.
ReadCertificate certificate_in_directory(std::string directory);

class CertificateLoader {
 public:
  static constexpr unsigned kLookMs = 10'000;  // with a certificate
  static constexpr unsigned kRetryMs = 500;    // without a certificate

  // `acceptor` outlives the loader. Reads at once.
  CertificateLoader(ReadCertificate read, TlsAcceptor& acceptor, unsigned look_ms = kLookMs);
  ~CertificateLoader();

  // The source may have changed: reads at once.
  void look_soon() { changed_.ring(); }

 private:
  void look();
  void loop(const std::stop_token& stop, unsigned look_ms);

  const ReadCertificate read_;
  TlsAcceptor& acceptor_;
  pki::KeyPair served_;
  Bell changed_;
  std::jthread thread_;
};

}  // namespace larder::webhook
