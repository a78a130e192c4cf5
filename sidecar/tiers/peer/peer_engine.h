// PeerEngine: the asking half of the peer tier without its thread: commands in, messages out, one
// turn at a time. Owned by one thread.
//
// A get reads the parts of a chunk from one member straight into the slot. A failed or closed
// connection writes into no slot any more, so that no slot stays busy beyond an answer. The gets of
// each member have a lane of their own: a member that stands still delays no get of another.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/net/poller.h"
#include "sidecar/tiers/command.h"
#include "sidecar/tiers/peer/members.h"
#include "sidecar/tiers/peer/offers.h"
#include "sidecar/tiers/peer/options.h"
#include "sidecar/tiers/peer/probes.h"
#include "sidecar/tiers/tier_front.h"

namespace larder::peer {

class PeerEngine {
 public:
  // All arguments outlive this object.
  PeerEngine(const ClientOptions& options, const base::Clock& clock, Offers& offers);

  Status start() { return poller_.open(); }
  void accept(tiers::Command command);
  // One round: replies, new commands, deadlines. Waits up to `timeout_ns` without work.
  void turn(std::uint64_t timeout_ns);
  // The longest allowed time until the next turn.
  std::uint64_t next_turn_ns() const;
  void wake() const { poller_.wake(); }  // thread-safe

  void take_outcomes(std::vector<tiers::Outcome>& out);
  bool idle() const { return operations_.empty(); }
  // Answers all open operations; no slot is touched afterwards.
  void abandon(const Status& why);

  tiers::TierFront::View view() const { return {state(), counters()}; }
  Members::View members() const { return members_.view(); }

 private:
  tiers::TierState state() const;
  tiers::TierCounters counters() const;
  // An accepted command with its progress.
  struct Op {
    tiers::Command command;
    bool started = false;      // get: parts are asked for
    Offer offer;               // get: started
    std::size_t waiting = 0;   // get: parts without a reply
    std::uint64_t moving = 0;  // get: bytes in flight
    Status failed;             // get: the first failure
  };
  using Operations = std::map<std::uint64_t, Op>;  // by serial
  struct Lane {
    std::deque<std::uint64_t> waiting;  // serials of gets with an offer; some may have ended
    std::uint64_t reading_bytes = 0;
  };

  void finish(std::uint64_t serial, Status status, tiers::ChunkFacts facts = {},
              std::vector<bool> there = {});
  void count(const Op& op, const Status& status, const tiers::ChunkFacts& facts);
  void begin(std::uint64_t serial);
  void begin_probe(std::uint64_t serial);
  void begin_get(std::uint64_t serial);
  bool queue_get(std::uint64_t serial);
  void pump_gets();
  void pump_lane(Lane& lane);
  bool start_get(std::uint64_t serial, const Offer& offer);
  void on_part(std::uint64_t serial, std::uint64_t part_bytes, const Status& lost,
               const net::Reply& reply);
  void miss_deadlines();

  const ClientOptions& options_;
  const base::Clock& clock_;
  Offers& offers_;
  net::Poller poller_;
  Members members_;
  Probes probes_;
  Operations operations_;
  std::vector<std::uint64_t> accepted_;  // serials to begin in the next turn
  std::map<std::uint64_t, Lane> lanes_;  // by member
  std::vector<tiers::Outcome> outcomes_;
  tiers::TierCounters counters_;
  std::uint64_t last_serial_ = 0;
  bool degraded_ = false;
};

}  // namespace larder::peer
