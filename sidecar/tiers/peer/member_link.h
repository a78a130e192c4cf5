// MemberLink: the way to a member for one purpose: a connection that is renewed before one of its
// certificates expires. Owned by the thread of the tier.
//
// A renewal connects a second time, with the certificates that the files have by then. New requests
// go to the new connection once it is ready. The former connection ends with its last reply.
#pragma once

#include <cstdint>
#include <memory>
#include <random>

#include "sidecar/base/clock.h"
#include "sidecar/net/poller.h"
#include "sidecar/tiers/peer/options.h"
#include "sidecar/tiers/peer/peer_link.h"

namespace larder::peer {

class MemberLink {
 public:
  // All arguments except `endpoint` outlive this object.
  MemberLink(const ClientOptions& options, const base::Clock& clock, net::Poller& poller,
             net::Endpoint endpoint);

  // The connection for new requests.
  PeerLink* operator->() const { return current_.get(); }
  PeerLink& operator*() const { return *current_; }

  // As of PeerLink, for all connections.
  void turn();
  void flush();
  std::uint64_t next_ns() const;
  void cancel(std::uint64_t owner);
  void retire();
  std::uint64_t sent_bytes() const;
  std::uint64_t received_bytes() const;

 private:
  using Link = std::unique_ptr<PeerLink>;

  Link make() const;
  template <typename Work>
  void each(Work work) const;
  void renew(std::uint64_t now_ns);
  std::uint64_t half_of_validity(std::uint64_t now_ns);
  void end(Link& link);

  const ClientOptions& options_;
  const base::Clock& clock_;
  net::Poller& poller_;
  const net::Endpoint endpoint_;
  std::mt19937_64 random_;
  Link current_, next_, former_;  // next_ connects; former_ has its last requests
  std::uint64_t renew_ns_ = UINT64_MAX;
  std::uint64_t past_sent_ = 0, past_received_ = 0;  // of ended connections
};

}  // namespace larder::peer
