// Rotation: which certificates to make, and when. Pure: what there is goes in, the next step comes out; thread-safe.
//
// The order that keeps every review's handshake valid, whoever of the API servers and replicas is late:
// 1. a new authority goes into the Secret and into the caBundle, beside the old one; the old leaf is served on;
// 2. when every caBundle has had it for `settle_s`, a leaf of it is made, which the replicas load one after the other;
// 3. the old authority goes when no leaf of it can be valid any more.
// The newest authority alone has its key in the Secret, so that the end of all leaves of an older one is known: its own beginning
// plus a leaf's life. Nothing is remembered but what stands in the Secret, and a new leader goes on where the old one was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/webhook/certificates.h"

namespace larder::webhook {

struct Lifetimes {  // seconds
  std::int64_t authority_s = 2 * 365 * 86400;
  std::int64_t leaf_s = 90 * 86400;
  std::int64_t backdate_s = 3600;  // clocks differ
  std::int64_t settle_s = 60;      // until an API server acts on a caBundle that it has been sent
};

struct HeldLeaf {  // one that can be served: it has its key, and our names
  Validity validity;
  std::optional<std::size_t> by;  // which of the authorities signed it
};

struct Held {                         // what the Secret holds
  std::vector<Validity> authorities;  // the newest last
  bool newest_key = false;            // the newest one's key is there
  std::optional<HeldLeaf> leaf;
};

struct Step {
  bool make_authority = false;
  bool make_leaf = false;         // by the newest authority
  std::vector<std::size_t> drop;  // of the authorities, ascending
  std::string why;                // in words; empty: there is nothing to do

  bool changes() const { return make_authority || make_leaf || !drop.empty(); }
};

// `published_s`: for how many seconds every caBundle is known to have the newest authority; nothing: one has it not.
Step next_step(const Held& held, std::optional<std::int64_t> published_s, std::int64_t now_s, const Lifetimes& lifetimes);

// Of what is made now.
Validity authority_validity(std::int64_t now_s, const Lifetimes& lifetimes);
Validity leaf_validity(std::int64_t now_s, const Lifetimes& lifetimes);

}  // namespace larder::webhook
