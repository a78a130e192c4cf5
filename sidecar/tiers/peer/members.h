// Members: the other larderd of the pool, with two connections each: one for short questions and
// one for payloads, so that a question never waits behind bytes. Owned by the thread of the tier.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/net/poller.h"
#include "sidecar/net/resolver.h"
#include "sidecar/tiers/peer/member_link.h"
#include "sidecar/tiers/peer/options.h"

namespace larder::peer {

struct Member {
  Member(const ClientOptions& options, const base::Clock& clock, net::Poller& poller,
         std::uint64_t id, net::Endpoint place)
      : number(id),
        endpoint(place),
        questions(options, clock, poller, place),
        payloads(options, clock, poller, std::move(place)) {}
  bool ready() const { return questions->ready() && payloads->ready(); }

  const std::uint64_t number;  // never used again
  const net::Endpoint endpoint;
  MemberLink questions, payloads;
  bool self = false;          // the address is of this larderd, as of the last HELLO
  std::uint64_t self_ns = 0;  // the time of that HELLO
};

class Members {
 public:
  // All arguments outlive this object.
  Members(const ClientOptions& options, const base::Clock& clock, net::Poller& poller);

  // Connects, moves bytes, calls back, and asks DNS again.
  void turn();
  void flush();
  std::uint64_t next_ns() const;

  // The members to ask: ready, and in time with the open questions. At most `fanout`.
  std::vector<Member*> askable();
  Member* find(std::uint64_t number);
  // Takes back the requests of this owner at all members.
  void cancel(std::uint64_t owner);

  struct View {
    std::size_t known = 0, reachable = 0;  // without this larderd
    std::string failure;                   // of a member that cannot be reached; empty without one
  };
  View view() const;
  std::uint64_t sent_bytes() const;
  std::uint64_t received_bytes() const;

 private:
  void find_self(Member& member, std::uint64_t now_ns) const;
  void resolve(std::uint64_t now_ns);
  void set(std::vector<net::Endpoint> endpoints);

  const ClientOptions& options_;
  const base::Clock& clock_;
  net::Poller& poller_;
  std::unique_ptr<net::Resolver> resolver_;  // by DNS only
  bool resolving_ = false;
  std::uint64_t resolve_ns_ = 0;  // the next question to DNS
  Status resolved_;
  std::vector<std::unique_ptr<Member>> members_;
  std::uint64_t last_number_ = 0;
  std::uint64_t past_sent_ = 0, past_received_ = 0;  // of members that left
};

}  // namespace larder::peer
