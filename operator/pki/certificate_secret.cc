#include "operator/pki/certificate_secret.h"

#include <utility>

#include "operator/api/base64.h"

namespace larder::pki {
namespace {

// One key of the Secret; empty if missing or not Base64.
// Secret.data of a foreign writer may hold any JSON. A broken part counts as missing, and the next
// step replaces it.
std::string in_secret(const api::Object& secret, const char* key) {
  const api::Object& data = api::at(secret, "data");
  const auto found = data.is_object() ? data.find(key) : data.end();
  if (!data.is_object() || found == data.end() || !found->is_string()) return "";
  return api::from_base64(found->get_ref<const std::string&>()).value_or("");
}

// Fills in bundle.held. Unreadable certificates are left out, so one broken entry of ca.crt does
// not stop the rotation.
void describe(CertificateBundle& bundle, const Subjects& subjects) {
  std::vector<std::string> readable;
  bundle.held = {};
  for (std::string& one : bundle.authorities) {
    const Result<CertificateFacts> facts = read_certificate(one);
    if (!facts.ok() || !facts->authority) continue;
    bundle.held.authorities.push_back(facts->validity);
    readable.push_back(std::move(one));
  }
  bundle.authorities = std::move(readable);
  if (bundle.authorities.empty()) return;
  bundle.held.newest_key = belong_together({bundle.authorities.back(), bundle.authority_key});
  const Result<CertificateFacts> leaf = read_certificate(bundle.leaf.certificate);
  // Names of another Service or namespace, e.g. after a change of the chart's name, make the leaf
  // unusable.
  if (!leaf.ok() || leaf->names != subjects.names || !belong_together(bundle.leaf)) return;
  bundle.held.leaf = HeldLeaf{leaf->validity, {}};
  // By signature and not by issuer name: all authorities have the same name.
  for (std::size_t i = 0; i < bundle.authorities.size(); ++i)
    if (is_signed_by(bundle.leaf.certificate, bundle.authorities[i])) bundle.held.leaf->by = i;
}

}  // namespace

std::string bundle_text(const std::vector<std::string>& certificates) {
  std::string text;
  for (const std::string& one : certificates) text += one;
  return text;
}

CertificateBundle read_bundle(const api::Object& secret, const Subjects& subjects) {
  CertificateBundle bundle;
  // ca.key belongs to the newest authority only: an old authority can sign nothing any more
  // (rotation.h).
  bundle.authority_key = in_secret(secret, "ca.key");
  bundle.leaf = {in_secret(secret, "tls.crt"), in_secret(secret, "tls.key")};
  bundle.authorities = split_bundle(in_secret(secret, "ca.crt"));
  describe(bundle, subjects);
  return bundle;
}

Status advance(CertificateBundle& bundle, const Step& step, std::int64_t now_s,
               const Lifetimes& lifetimes, const Subjects& subjects) {
  if (step.make_leaf) {
    Result<KeyPair> leaf =
        make_leaf({bundle.authorities.back(), bundle.authority_key},
                  {subjects.leaf, subjects.names, subjects.use}, leaf_validity(now_s, lifetimes));
    if (!leaf.ok()) return leaf.status();
    bundle.leaf = *std::move(leaf);
  }
  // From the end, so the indexes in `drop` stay valid.
  for (std::size_t i = step.drop.size(); i-- > 0;)
    bundle.authorities.erase(bundle.authorities.begin() +
                             static_cast<std::ptrdiff_t>(step.drop[i]));
  if (step.make_authority) {
    Result<KeyPair> authority =
        make_authority(subjects.authority, authority_validity(now_s, lifetimes));
    if (!authority.ok()) return authority.status();
    // The bound of split_bundle(): a longer bundle would lose the newest certificate at the next
    // read.
    if (bundle.authorities.size() >= kMostCertificates)
      bundle.authorities.erase(bundle.authorities.begin());
    bundle.authorities.push_back(authority->certificate);
    bundle.authority_key = authority->key;
  }
  describe(bundle, subjects);
  return {};
}

api::Object secret_data(const CertificateBundle& bundle) {
  return {{"ca.crt", api::to_base64(bundle_text(bundle.authorities))},
          {"ca.key", api::to_base64(bundle.authority_key)},
          {"tls.crt", api::to_base64(bundle.leaf.certificate)},
          {"tls.key", api::to_base64(bundle.leaf.key)}};
}

}  // namespace larder::pki
