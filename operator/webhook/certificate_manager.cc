#include "operator/webhook/certificate_manager.h"

#include <algorithm>
#include <chrono>

#include "operator/api/base64.h"
#include "operator/api/names.h"
#include "operator/webhook/object_watch.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/base/nap.h"

namespace larder::webhook {
namespace {

constexpr int kMostPasses = 4;  // authority, caBundle, leaf, and a final look
constexpr std::chrono::milliseconds kBetweenLooks{10'000};
// After a failed look, doubled each time. A conflict with another writer is short.
constexpr std::chrono::milliseconds kFirstRetry{200};
// Between any two looks, so that a fast writer of the caBundle cannot set the pace of this replica.
constexpr std::chrono::milliseconds kLeastPause{100};

}  // namespace

// The API server calls SERVICE.NAMESPACE.svc. The longer and shorter names are for people and
// probes. The order is fixed: read() compares the list with the leaf's.
std::vector<std::string> service_names(const std::string& service, const std::string& ns) {
  const std::string name = service + "." + ns;
  return {name + ".svc", name, service, name + ".svc.cluster.local"};
}

struct CertificateManager::Found {
  api::Object secret;  // the Secret as read; null: missing
  pki::CertificateBundle bundle;
};

CertificateManager::CertificateManager(k8s::ApiClient& client, KeptCertificates kept,
                                       const base::Clock& clock, Now now_s)
    : client_(client),
      kept_(std::move(kept)),
      subjects_{"larder webhook authority", "larder webhook",
                service_names(kept_.service, kept_.ns)},
      clock_(clock),
      now_s_(std::move(now_s)) {}

// Watches wake the manager at once after a foreign change of Secret or caBundle (F-237). The look
// every 10 s serves a role that may not watch.
void CertificateManager::run(const std::stop_token& stop) {
  const auto ring = [this] { changed_.ring(); };
  const auto secret =
      watch_object(client_, k8s::resources::kSecrets, kept_.ns, kept_.secret, ring, clock_);
  const auto configuration =
      watch_object(client_, k8s::resources::kWebhooks, "", kept_.configuration, ring, clock_);
  std::chrono::milliseconds retry = kFirstRetry;
  while (!stop.stop_requested()) {
    const Status status = run_once();
    if (!status.ok()) log(base::LogLevel::kWarning, status.to_string());
    base::nap(kLeastPause, stop);
    changed_.wait(status.ok() ? kBetweenLooks : retry, stop);
    retry = status.ok() ? kFirstRetry : std::min(retry * 2, kBetweenLooks);
  }
}

void CertificateManager::log(base::LogLevel level, const std::string& text) const {
  const std::string line = "webhook certificates: " + text;
  const base::LogFields fields{{"kind", "Secret"},
                               {"namespace", kept_.ns},
                               {"name", kept_.secret},
                               {"webhook", kept_.configuration}};
  // The log throttles by text. The reason of a step is a fixed text; messages of the API server
  // have versions and times.
  if (level == base::LogLevel::kInfo) return base::log_from(line, level, line, fields);
  base::log_refusal("webhook certificates", text, level, line, fields);
}

// A pass does one step. After the first step of an empty cluster the next one is due at once:
// authority, caBundle, leaf.
Status CertificateManager::run_once() {
  for (int i = 0; i < kMostPasses; ++i) {
    const Result<bool> changed = pass();
    if (!changed.ok()) return changed.status();
    if (!*changed) return {};
  }
  return {};
}

// Writes the caBundle before the step, since making a leaf requires a published authority.
Result<bool> CertificateManager::pass() {
  Result<Found> found = read();
  if (!found.ok()) return found.status();
  std::optional<std::int64_t> published_s;
  if (!found->bundle.authorities.empty()) {
    Result<std::optional<std::int64_t>> published =
        publish(pki::bundle_text(found->bundle.authorities));
    if (!published.ok()) return published.status();
    published_s = *published;
  }
  const pki::Step step = pki::next_step(found->bundle.held, published_s, now_s_(), kept_.lifetimes);
  if (!step.changes()) return false;
  log(base::LogLevel::kInfo, step.why);
  if (Status status = write(*found, step); !status.ok()) return status;
  return true;
}

Result<CertificateManager::Found> CertificateManager::read() const {
  Found found;
  Result<api::Object> secret = client_.get(k8s::resources::kSecrets, kept_.ns, kept_.secret);
  if (!secret.ok()) {
    if (secret.status().code() == Code::kNotFound) return found;
    return secret.status();
  }
  found.secret = *std::move(secret);
  found.bundle = pki::read_bundle(found.secret, subjects_);
  return found;
}

// found is the state that was read; the write carries its resourceVersion, so a change in between
// makes the write fail.
Status CertificateManager::write(Found& found, const pki::Step& step) {
  if (Status status = pki::advance(found.bundle, step, now_s_(), kept_.lifetimes, subjects_);
      !status.ok())
    return status;
  // Apply and not create: RBAC can bind the right to patch to a name, and cannot bind the right to
  // create. With two writers, resourceVersion lets one win.
  api::Object metadata = {
      {"name", kept_.secret},
      {"namespace", kept_.ns},
      {"labels", {{std::string(api::kManagedByLabel), std::string(api::kFieldManager)}}}};
  const std::string version = api::text_at(found.secret, "metadata.resourceVersion");
  if (!version.empty()) metadata["resourceVersion"] = version;
  const api::Object secret = {{"apiVersion", "v1"},
                              {"kind", "Secret"},
                              {"metadata", std::move(metadata)},
                              {"data", pki::secret_data(found.bundle)}};
  return client_.apply(k8s::resources::kSecrets, secret).status();
}

Result<std::optional<std::int64_t>> CertificateManager::publish(const std::string& bundle) {
  const std::string wanted = api::to_base64(bundle);
  Result<api::Object> configuration =
      client_.get(k8s::resources::kWebhooks, "", kept_.configuration);
  const bool none = !configuration.ok() && configuration.status().code() == Code::kNotFound;
  if (!configuration.ok() && !none) return configuration.status();
  // bundle has at least one certificate, see pass().
  const std::string newest = pki::split_bundle(bundle).back();
  bool differs = false, lacked = false;
  if (!none && configuration->contains("webhooks") && (*configuration)["webhooks"].is_array()) {
    // One configuration has several webhooks (by annotation, by namespace), and each has a
    // caBundle.
    for (api::Object& webhook : (*configuration)["webhooks"]) {
      if (!api::at(webhook, "clientConfig").is_object() ||
          api::text_at(webhook, "clientConfig.caBundle") == wanted)
        continue;
      // Another bundle that holds the newest authority already lets API servers trust the new leaf:
      // the time of settling goes on.
      lacked |= api::from_base64(api::text_at(webhook, "clientConfig.caBundle"))
                    .value_or("")
                    .find(newest) == std::string::npos;
      webhook["clientConfig"]["caBundle"] = wanted;
      differs = true;
    }
  }
  if (differs) {
    const Result<api::Object> written = client_.replace(k8s::resources::kWebhooks, *configuration);
    if (!written.ok()) return written.status();
  }
  // Without a configuration no API server calls. The removal of an older authority delays no step.
  // published_ is empty after a start: a new leader waits settle_s once more, which delays a leaf
  // and breaks nothing.
  if (lacked || published_ != newest) {
    published_ = newest;
    published_since_ms_ = clock_.now_ms();
  }
  return std::optional<std::int64_t>((clock_.now_ms() - published_since_ms_) / 1000);
}

}  // namespace larder::webhook
