// The Secret with the certificates of a pool's peers: made and renewed by operator/pki.
//
// The order of a renewal keeps every handshake valid. A new authority stands beside the old one for
// kPeerLifetimes.settle_s, until every kubelet has brought the Secret to its pods. Then the Secret
// gets a leaf of the new authority. larderd reads changed files at the next connect. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "operator/api/cache_pool.h"
#include "operator/k8s/api_client.h"
#include "operator/pki/rotation.h"

namespace larder::reconcile {

// A kubelet may take two minutes to bring a changed Secret to its pods.
inline constexpr pki::Lifetimes kPeerLifetimes{.settle_s = 600};

struct PeerSecret {
  Status status;         // why the Secret could not be read or written
  std::string taken;     // another owner has the name: one sentence with the remedy
  bool waiting = false;  // the Secret of an earlier pool of the name is being deleted
};

// Does the steps that are due. No Secret is needed without peers, without TLS, and with a Secret of
// the user. `now_s`: seconds since 1970.
PeerSecret keep_peer_secret(k8s::ApiClient& client, const api::CachePool& pool, std::int64_t now_s,
                            const pki::Lifetimes& lifetimes = kPeerLifetimes);

}  // namespace larder::reconcile
