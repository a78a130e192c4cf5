// CertificateManager: the webhook's certificates on the leader: the Secret with authority and
// leaf, and the caBundle of the MutatingWebhookConfiguration. rotation.h decides the steps. Used by
// one thread.
//
// operator/pki/certificate_secret.h names the keys of the Secret. The manager replaces unreadable
// parts. The Secret is the only memory, so that a new leader continues the rotation.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/k8s/api_client.h"
#include "operator/pki/certificate_secret.h"
#include "operator/webhook/bell.h"
#include "sidecar/base/clock.h"
#include "sidecar/base/log.h"

namespace larder::webhook {

struct KeptCertificates {
  std::string ns;             // of Secret and Service
  std::string secret;         // larder-webhook-tls
  std::string service;        // larder-webhook; the leaf has the names of service_names()
  std::string configuration;  // larder: a MutatingWebhookConfiguration
  pki::Lifetimes lifetimes = {};
};

// Names under which the API server may call the Service.
std::vector<std::string> service_names(const std::string& service, const std::string& ns);

class CertificateManager {
 public:
  using Now = std::function<std::int64_t()>;  // seconds since 1970

  // `client` refuses writes unless this replica leads. `client` and `clock` outlive the manager.
  CertificateManager(k8s::ApiClient& client, KeptCertificates kept, const base::Clock& clock,
                     Now now_s);

  // Does all steps that are due. The next call repairs an error, such as another writer or an API
  // server that is away.
  Status run_once();
  // Repeats the steps until `stop`: at each change of Secret or configuration, and every 10 s.
  void run(const std::stop_token& stop);

 private:
  struct Found;  // the parsed Secret

  Result<bool> pass();
  Result<Found> read() const;
  Status write(Found& found, const pki::Step& step);
  // Writes `bundle` into every caBundle that differs. Returns since when, in seconds, all caBundles
  // have the newest authority.
  Result<std::optional<std::int64_t>> publish(const std::string& bundle);
  void log(base::LogLevel level, const std::string& text) const;

  k8s::ApiClient& client_;
  const KeptCertificates kept_;
  const pki::Subjects subjects_;
  const base::Clock& clock_;
  const Now now_s_;
  Bell changed_;           // rung by the watches of run()
  std::string published_;  // the newest authority in all caBundles
  std::uint64_t published_since_ms_ = 0;
};

}  // namespace larder::webhook
