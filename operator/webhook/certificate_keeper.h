// CertificateKeeper: the leader's care for the webhook's certificates: the Secret that holds authority and leaf, and the caBundle of the
// MutatingWebhookConfiguration. What to do when is decided in rotation.h. Used by one thread.
//
// The Secret's keys: ca.crt (all authorities, the newest last), ca.key (of the newest), tls.crt and tls.key (the leaf). What stands
// there and cannot be read is made anew.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/k8s/api_client.h"
#include "operator/webhook/bell.h"
#include "operator/webhook/rotation.h"
#include "sidecar/base/clock.h"
#include "sidecar/base/log.h"

namespace larder::webhook {

struct KeptCertificates {
  std::string ns;             // of Secret and Service
  std::string secret;         // larder-webhook-tls
  std::string service;        // larder-webhook: the leaf is of SERVICE.NAMESPACE.svc and its longer and shorter forms
  std::string configuration;  // larder: a MutatingWebhookConfiguration
  Lifetimes lifetimes = {};
};

// Names that the API server may call the Service by.
std::vector<std::string> service_names(const std::string& service, const std::string& ns);

class CertificateKeeper {
 public:
  using Now = std::function<std::int64_t()>;  // seconds since 1970

  // `client` refuses writes of who does not lead; it and `clock` outlive the keeper.
  CertificateKeeper(k8s::ApiClient& client, KeptCertificates kept, const base::Clock& clock, Now now_s);

  // Looks, and does what is due: the steps that need not wait for time in one go. An error (another writer, the API server away) is
  // cured by the next call.
  Status keep_once();
  // The same while this replica leads: as soon as Secret or configuration change, which it watches, and every 10 s.
  void keep(const std::stop_token& stop);

 private:
  struct Found;  // what the Secret holds, read

  Result<bool> pass();
  Result<Found> read() const;
  Status write(Found& found, const Step& step);
  // For how long all caBundles have had the newest authority; writes them where they are not `bundle`.
  Result<std::optional<std::int64_t>> publish(const std::string& bundle);
  void log(base::LogLevel level, const std::string& text) const;

  k8s::ApiClient& client_;
  const KeptCertificates kept_;
  const base::Clock& clock_;
  const Now now_s_;
  Bell changed_;           // rung by the watches of keep()
  std::string published_;  // the newest authority that was seen in all of them
  std::uint64_t published_since_ms_ = 0;
};

}  // namespace larder::webhook
