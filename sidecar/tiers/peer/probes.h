// Probes: the question to all members side by side, which of them has which chunk. Owned by the
// thread of the tier.
//
// A question about many keys is split between the two connections of a member, so that request and
// reply fit into the first window of TCP: an idle connection sends few bytes in a round trip.
// A probe ends when all asked members answered, after probe_ms, or at its deadline; a member
// without an answer has no chunk. Of several members that have a chunk one is chosen, and the
// others learn that they need not hold the chunk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/peer/members.h"
#include "sidecar/tiers/peer/offers.h"
#include "sidecar/tiers/peer/options.h"

namespace larder::peer {

class Probes {
 public:
  // Called once, from begin(), from a reply, or from end_late(): whether each key is there. An
  // offer of each such key is in `offers` then. `failed`: no member answered,
  // although members were asked.
  using Done = std::function<void(const std::vector<bool>& there, const Status& failed)>;

  // All arguments outlive this object.
  Probes(const ClientOptions& options, const base::Clock& clock, Members& members, Offers& offers);

  void begin(std::uint64_t serial, std::span<const tiers::ChunkKey> keys, std::uint64_t deadline_ns,
             Done done);
  // Forgets the probe: `done` is not called.
  void cancel(std::uint64_t serial);
  void end_late(std::uint64_t now_ns);
  std::uint64_t next_ns() const;

  // The chunk need not be held any longer.
  void done_with(std::uint64_t member, const tiers::ChunkKey& key) {
    done_with_[member].push_back(key);
  }
  // Sends DONE for these chunks.
  void flush();

  std::uint64_t malformed() const { return malformed_; }  // answers that no peer sends

 private:
  using Keys = std::shared_ptr<const std::vector<tiers::ChunkKey>>;  // shared with the replies
  // The keys of one namespace, and their places in the question.
  struct Group {
    Keys keys;
    std::vector<std::size_t> places;
  };
  struct Found {
    std::uint64_t member = 0;
    tiers::ChunkFacts facts;
  };
  struct Probe {
    std::vector<Group> groups;
    std::vector<std::vector<Found>> found;  // for each key
    std::size_t keys = 0, waiting = 0, answered = 0, asked = 0;
    std::uint64_t by_ns = 0;
    Done done;
  };

  // The keys of each namespace, at most `most` in a group.
  static std::vector<Group> groups_of(std::span<const tiers::ChunkKey> keys, std::size_t most);
  void ask(Probe& probe, std::uint64_t serial, Member& member, std::size_t group, PeerLink& link);
  void on_reply(std::uint64_t serial, std::uint64_t member, std::size_t group, const Keys& keys,
                const Status& lost, const net::Reply& reply);
  void end(std::map<std::uint64_t, Probe>::iterator at);
  std::vector<bool> choose(const Probe& probe);

  const ClientOptions& options_;
  const base::Clock& clock_;
  Members& members_;
  Offers& offers_;
  std::map<std::uint64_t, Probe> probes_;                            // by serial
  std::map<std::uint64_t, std::vector<tiers::ChunkKey>> done_with_;  // by member
  std::uint64_t malformed_ = 0;
};

}  // namespace larder::peer
