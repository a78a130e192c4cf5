// Rotation: which certificates to make, and when. Pure: current state in, next step out;
// thread-safe.
//
// This order keeps every handshake valid, even with late API servers and replicas:
// 1. A new authority goes into Secret and caBundle beside the old one. Replicas serve the old leaf.
// 2. After every caBundle has had the authority for `settle_s`, the leader makes a leaf of the new
//    authority. The replicas load the leaf one after the other.
// 3. The old authority goes when none of its leaves can be valid.
//
// Only the newest authority has its key in the Secret. So the last leaf of an older authority ends
// at a known time: the start of the newer authority plus the life of a leaf. The Secret is the only
// state, and a new leader continues from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/pki/certificates.h"

namespace larder::pki {

struct Lifetimes {  // seconds
  std::int64_t authority_s = 2 * 365 * 86400;
  std::int64_t leaf_s = 90 * 86400;
  std::int64_t backdate_s = 3600;  // tolerance for differing clocks
  std::int64_t settle_s = 60;      // until every API server uses a new caBundle
};

struct HeldLeaf {  // a usable leaf, with its key and our names
  Validity validity;
  std::optional<std::size_t> by;  // index of the signing authority
};

struct Held {                         // the content of the Secret
  std::vector<Validity> authorities;  // newest last
  bool newest_key = false;            // has the key of the newest authority
  std::optional<HeldLeaf> leaf;
};

struct Step {
  bool make_authority = false;
  bool make_leaf = false;         // signed by the newest authority
  std::vector<std::size_t> drop;  // indexes of authorities, ascending
  std::string why;                // reason for the log; empty: no step

  bool changes() const { return make_authority || make_leaf || !drop.empty(); }
};

// `published_s`: seconds since every caBundle has the newest authority. Empty: a caBundle lacks it.
Step next_step(const Held& held, std::optional<std::int64_t> published_s, std::int64_t now_s,
               const Lifetimes& lifetimes);

// Validity of certificates made now.
Validity authority_validity(std::int64_t now_s, const Lifetimes& lifetimes);
Validity leaf_validity(std::int64_t now_s, const Lifetimes& lifetimes);

}  // namespace larder::pki
