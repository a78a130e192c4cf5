#include "operator/webhook/certificate_keeper.h"

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

// One key of the Secret; empty if missing or not Base64.
// Secret.data of a foreign writer may hold any JSON. A broken part counts as missing, and the
// keeper replaces it.
std::string in_secret(const api::Object& secret, const char* key) {
  const api::Object& data = api::at(secret, "data");
  const auto found = data.is_object() ? data.find(key) : data.end();
  if (!data.is_object() || found == data.end() || !found->is_string()) return "";
  return api::from_base64(found->get_ref<const std::string&>()).value_or("");
}

std::string join(const std::vector<std::string>& certificates) {
  std::string bundle;
  for (const std::string& one : certificates) bundle += one;
  return bundle;
}

}  // namespace

// The API server calls SERVICE.NAMESPACE.svc. The longer and shorter names are for people and
// probes. The order is fixed: read() compares the list with the leaf's.
std::vector<std::string> service_names(const std::string& service, const std::string& ns) {
  const std::string name = service + "." + ns;
  return {name + ".svc", name, service, name + ".svc.cluster.local"};
}

// held.authorities and authorities have the same order; the index in held.leaf.by belongs to both.
struct CertificateKeeper::Found {
  api::Object secret;  // the Secret as read; null: missing
  std::vector<std::string> authorities;
  std::string authority_key;
  KeyPair leaf;
  Held held;
};

CertificateKeeper::CertificateKeeper(k8s::ApiClient& client, KeptCertificates kept,
                                     const base::Clock& clock, Now now_s)
    : client_(client), kept_(std::move(kept)), clock_(clock), now_s_(std::move(now_s)) {}

// Watches wake the keeper at once after a foreign change of Secret or caBundle (F-237). The look
// every 10 s serves a role that may not watch.
void CertificateKeeper::keep(const std::stop_token& stop) {
  const auto ring = [this] { changed_.ring(); };
  const auto secret =
      watch_object(client_, k8s::resources::kSecrets, kept_.ns, kept_.secret, ring, clock_);
  const auto configuration =
      watch_object(client_, k8s::resources::kWebhooks, "", kept_.configuration, ring, clock_);
  std::chrono::milliseconds retry = kFirstRetry;
  while (!stop.stop_requested()) {
    const Status status = keep_once();
    if (!status.ok()) log(base::LogLevel::kWarning, status.to_string());
    base::nap(kLeastPause, stop);
    changed_.wait(status.ok() ? kBetweenLooks : retry, stop);
    retry = status.ok() ? kFirstRetry : std::min(retry * 2, kBetweenLooks);
  }
}

void CertificateKeeper::log(base::LogLevel level, const std::string& text) const {
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
Status CertificateKeeper::keep_once() {
  for (int i = 0; i < kMostPasses; ++i) {
    const Result<bool> changed = pass();
    if (!changed.ok()) return changed.status();
    if (!*changed) return {};
  }
  return {};
}

// Writes the caBundle before the step, since making a leaf requires a published authority.
Result<bool> CertificateKeeper::pass() {
  Result<Found> found = read();
  if (!found.ok()) return found.status();
  std::optional<std::int64_t> published_s;
  if (!found->authorities.empty()) {
    Result<std::optional<std::int64_t>> published = publish(join(found->authorities));
    if (!published.ok()) return published.status();
    published_s = *published;
  }
  const Step step = next_step(found->held, published_s, now_s_(), kept_.lifetimes);
  if (!step.changes()) return false;
  log(base::LogLevel::kInfo, step.why);
  if (Status status = write(*found, step); !status.ok()) return status;
  return true;
}

// Unreadable certificates are left out, so one broken entry of ca.crt does not stop the rotation.
Result<CertificateKeeper::Found> CertificateKeeper::read() const {
  Found found;
  Result<api::Object> secret = client_.get(k8s::resources::kSecrets, kept_.ns, kept_.secret);
  if (!secret.ok()) {
    if (secret.status().code() == Code::kNotFound) return found;
    return secret.status();
  }
  found.secret = *std::move(secret);
  // ca.key belongs to the newest authority only: an old authority can sign nothing any more
  // (rotation.h).
  found.authority_key = in_secret(found.secret, "ca.key");
  found.leaf = {in_secret(found.secret, "tls.crt"), in_secret(found.secret, "tls.key")};
  for (std::string& one : split_bundle(in_secret(found.secret, "ca.crt"))) {
    const Result<CertificateFacts> facts = read_certificate(one);
    if (!facts.ok() || !facts->authority) continue;
    found.held.authorities.push_back(facts->validity);
    found.authorities.push_back(std::move(one));
  }
  if (found.authorities.empty()) return found;
  found.held.newest_key = belong_together({found.authorities.back(), found.authority_key});
  const Result<CertificateFacts> leaf = read_certificate(found.leaf.certificate);
  // Names of another Service or namespace, e.g. after a change of the chart's name, make the leaf
  // unusable.
  if (!leaf.ok() || leaf->names != service_names(kept_.service, kept_.ns) ||
      !belong_together(found.leaf))
    return found;
  found.held.leaf = HeldLeaf{leaf->validity, {}};
  // By signature and not by issuer name: all authorities have the same name.
  for (std::size_t i = 0; i < found.authorities.size(); ++i)
    if (is_signed_by(found.leaf.certificate, found.authorities[i])) found.held.leaf->by = i;
  return found;
}

// found is the state that was read; the write carries its resourceVersion, so a change in between
// makes the write fail.
Status CertificateKeeper::write(Found& found, const Step& step) {
  const std::int64_t now_s = now_s_();
  if (step.make_leaf) {
    Result<KeyPair> leaf =
        make_leaf({found.authorities.back(), found.authority_key},
                  service_names(kept_.service, kept_.ns), leaf_validity(now_s, kept_.lifetimes));
    if (!leaf.ok()) return leaf.status();
    found.leaf = *std::move(leaf);
  }
  // From the end, so the indexes in `drop` stay valid.
  for (std::size_t i = step.drop.size(); i-- > 0;)
    found.authorities.erase(found.authorities.begin() + static_cast<std::ptrdiff_t>(step.drop[i]));
  if (step.make_authority) {
    Result<KeyPair> authority = make_authority(authority_validity(now_s, kept_.lifetimes));
    if (!authority.ok()) return authority.status();
    // The bound of split_bundle(): a longer bundle would lose the newest certificate at the next
    // read.
    if (found.authorities.size() >= kMostCertificates)
      found.authorities.erase(found.authorities.begin());
    found.authorities.push_back(authority->certificate);
    found.authority_key = authority->key;
  }
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
                              {"data",
                               {{"ca.crt", api::to_base64(join(found.authorities))},
                                {"ca.key", api::to_base64(found.authority_key)},
                                {"tls.crt", api::to_base64(found.leaf.certificate)},
                                {"tls.key", api::to_base64(found.leaf.key)}}}};
  return client_.apply(k8s::resources::kSecrets, secret).status();
}

Result<std::optional<std::int64_t>> CertificateKeeper::publish(const std::string& bundle) {
  const std::string wanted = api::to_base64(bundle);
  Result<api::Object> configuration =
      client_.get(k8s::resources::kWebhooks, "", kept_.configuration);
  const bool none = !configuration.ok() && configuration.status().code() == Code::kNotFound;
  if (!configuration.ok() && !none) return configuration.status();
  // bundle has at least one certificate, see pass().
  const std::string newest = split_bundle(bundle).back();
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
