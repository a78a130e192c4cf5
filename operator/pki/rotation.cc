#include "operator/pki/rotation.h"

namespace larder::pki {
namespace {

bool is_valid(const Validity& validity, std::int64_t now_s) {
  return validity.not_before_s <= now_s && now_s < validity.not_after_s;
}

// Whether two thirds of the life are over.
// The rule of cert-manager: renewal after two thirds, so a third is left for repairs.
bool is_old(const Validity& validity, std::int64_t now_s) {
  return validity.not_after_s - now_s < (validity.not_after_s - validity.not_before_s) / 3;
}

std::string why_new_authority(const Held& held, std::int64_t now_s) {
  if (held.authorities.empty()) return "there is no authority";
  // The key may be lost with a Secret that someone edited: without it, no leaf can be made.
  if (!held.newest_key) return "the authority's key is missing";
  if (!is_valid(held.authorities.back(), now_s)) return "the authority is not valid now";
  if (is_old(held.authorities.back(), now_s)) return "the authority is old";
  return "";
}

struct RotationReason {
  std::string text;     // empty: no new leaf
  bool urgent = false;  // the current leaf is unusable
};

// An urgent reason: the replicas have no certificate that API servers trust. Waiting would protect
// no handshake.
RotationReason reason_for_leaf(const Held& held, std::int64_t now_s) {
  if (!held.leaf) return {"there is no certificate of our names", true};
  if (!is_valid(held.leaf->validity, now_s)) return {"the certificate is not valid now", true};
  if (!held.leaf->by) return {"no authority of ours signed the certificate", true};
  if (*held.leaf->by + 1 != held.authorities.size())
    return {"the certificate is of an older authority", false};
  if (is_old(held.leaf->validity, now_s)) return {"the certificate is old", false};
  return {};
}

}  // namespace

Step next_step(const Held& held, std::optional<std::int64_t> published_s, std::int64_t now_s,
               const Lifetimes& lifetimes) {
  // One step at a time: the authority must be published before a leaf of it (the order stands in
  // rotation.h).
  Step step;
  if (step.why = why_new_authority(held, now_s); !step.why.empty()) {
    step.make_authority = true;
    return step;
  }
  const RotationReason reason = reason_for_leaf(held, now_s);
  // Only after the authority is in every caBundle and has had time to arrive. An unusable current
  // leaf makes the waiting pointless.
  if (!reason.text.empty() && published_s &&
      (reason.urgent || *published_s >= lifetimes.settle_s)) {
    step.make_leaf = true;
    step.why = reason.text;
  }
  // The last leaf of an older authority was made before the newest authority began.
  const std::int64_t last_leaf_ends_s =
      held.authorities.back().not_before_s + lifetimes.backdate_s + lifetimes.leaf_s;
  for (std::size_t i = 0; i + 1 < held.authorities.size(); ++i) {
    // An authority in use stays: replicas may still serve its leaf.
    const bool in_use = held.leaf && held.leaf->by == i && is_valid(held.leaf->validity, now_s);
    const bool over = held.authorities[i].not_after_s <= now_s;
    if (!over && (in_use || now_s < last_leaf_ends_s)) continue;
    step.drop.push_back(i);
    if (step.why.empty()) step.why = "no certificate of an older authority can be valid any more";
  }
  return step;
}

// not_before lies an hour in the past, for API servers with a late clock.
Validity authority_validity(std::int64_t now_s, const Lifetimes& lifetimes) {
  return {now_s - lifetimes.backdate_s, now_s + lifetimes.authority_s};
}

Validity leaf_validity(std::int64_t now_s, const Lifetimes& lifetimes) {
  return {now_s - lifetimes.backdate_s, now_s + lifetimes.leaf_s};
}

}  // namespace larder::pki
