#include "operator/reconcile/peer_certificates.h"

#include <optional>
#include <utility>

#include "operator/desired/peer_objects.h"
#include "operator/pki/certificate_secret.h"
#include "operator/reconcile/plan.h"
#include "sidecar/base/log_throttle.h"

namespace larder::reconcile {
namespace {

using api::Object;

constexpr int kMostSteps = 4;  // authority, leaf, the end of old authorities, and a final look

pki::Subjects subjects_of(const api::CachePool& pool) {
  return {"larder peers authority",
          "larder peers",
          {desired::peers_server_name(pool)},
          pki::LeafUse::kServerAndClient};
}

void log_step(const api::CachePool& pool, const std::string& why) {
  const std::string line = "certificates of peers: " + why;
  base::log_from(line + " " + pool.ns + "/" + pool.name, base::LogLevel::kInfo, line,
                 {{"kind", "Secret"},
                  {"namespace", pool.ns},
                  {"name", desired::peers_name(pool)},
                  {"owner_kind", "CachePool"},
                  {"owner", pool.name}});
}

// Steps in memory, so that one write has authority and leaf. Returns whether a step was due.
Result<bool> take_steps(pki::CertificateBundle& bundle, const api::CachePool& pool,
                        std::int64_t now_s, const pki::Lifetimes& lifetimes) {
  bool changed = false;
  for (int i = 0; i < kMostSteps; ++i) {
    // The Secret is the caBundle of its pods: the newest authority is published since its creation.
    std::optional<std::int64_t> published_s;
    if (!bundle.held.authorities.empty())
      published_s = now_s - (bundle.held.authorities.back().not_before_s + lifetimes.backdate_s);
    const pki::Step step = pki::next_step(bundle.held, published_s, now_s, lifetimes);
    if (!step.changes()) break;
    log_step(pool, step.why);
    const Status done = pki::advance(bundle, step, now_s, lifetimes, subjects_of(pool));
    if (!done.ok()) return done;
    changed = true;
  }
  return changed;
}

// Apply and not create: a role can bind the right to apply to a name. With two writers,
// resourceVersion lets one win.
Status write(k8s::ApiClient& client, const api::CachePool& pool, const Object& found,
             const pki::CertificateBundle& bundle) {
  Object secret = desired::peers_secret_object(pool, pki::secret_data(bundle));
  const std::string version = api::text_at(found, "metadata.resourceVersion");
  if (!version.empty()) secret["metadata"]["resourceVersion"] = version;
  return client.apply(k8s::resources::kSecrets, secret).status();
}

}  // namespace

PeerSecret keep_peer_secret(k8s::ApiClient& client, const api::CachePool& pool, std::int64_t now_s,
                            const pki::Lifetimes& lifetimes) {
  if (!pool.spec.peers || !pool.spec.peers->tls || !pool.spec.peers->tls_secret.empty()) return {};
  PeerSecret kept;
  // A GET of one Secret by name: the operator keeps no cache of Secrets.
  Result<Object> found = client.get(k8s::resources::kSecrets, pool.ns, desired::peers_name(pool));
  if (!found.ok() && found.status().code() != Code::kNotFound) {
    kept.status = found.status();
    return kept;
  }
  const Object secret = found.ok() ? *std::move(found) : Object();
  if (!secret.is_null()) {
    const Owner owner{"CachePool", pool.ns, pool.name, pool.uid};
    const Claim claim = claim_on(secret, owner);
    if (claim == Claim::kTaken) kept.taken = taken_text(secret, owner);
    kept.waiting = claim == Claim::kGoing || claim == Claim::kOfEarlier;
    if (claim != Claim::kOurs) return kept;
  }
  pki::CertificateBundle bundle = pki::read_bundle(secret, subjects_of(pool));
  const Result<bool> changed = take_steps(bundle, pool, now_s, lifetimes);
  if (!changed.ok())
    kept.status = changed.status();
  else if (*changed)
    kept.status = write(client, pool, secret, bundle);
  return kept;
}

}  // namespace larder::reconcile
