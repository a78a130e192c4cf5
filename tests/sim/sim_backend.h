// SimBackend: one larderd's tier over the machine's SimServer, with the promises of tier.h and of
// tiers/remote: dropped chunks are hidden until the server has done the drop, another life of the
// server starts without known chunks, and no message leaves a slot busy.
//
// A put must bring the bytes that an engine stored (Model). A get may find the chunk lost, late,
// refused, or replaced by another larderd. A broken rule throws. Owned by one thread.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sidecar/tiers/tier.h"
#include "tests/sim/brought_up.h"
#include "tests/sim/machine.h"

namespace larder::sim {

class SimBackend final : public tiers::Tier {
 public:
  // Both outlive the object.
  SimBackend(Machine& machine, Model& model, std::shared_ptr<tiers::Residents> residents);

  void turn();
  // Turns, and lets time pass, until there are messages or timeout_ms have passed.
  void wait(int timeout_ms);
  bool idle() const { return ops_.empty() && drops_.empty(); }
  bool reads_memory() const;
  // The chunk that a get brought into the arena; each one once.
  std::optional<Up> take_up(tiers::Ticket ticket) { return up_.take(ticket); }
  std::uint64_t went_down = 0, came_up = 0, probed = 0;  // successful ones

  Status put(tiers::Ticket ticket, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts,
             std::span<const std::byte> slot, std::uint64_t deadline_ns) override;
  Status get(tiers::Ticket ticket, const tiers::ChunkKey& key, std::span<std::byte> slot,
             std::uint64_t deadline_ns) override;
  Status probe(tiers::Ticket ticket, std::span<const tiers::ChunkKey> keys,
               std::uint64_t deadline_ns) override;
  Status drop_namespace(tiers::Ticket ticket, const protocol::NamespaceId& id,
                        std::uint64_t deadline_ns) override;
  Status clear(tiers::Ticket ticket, std::uint64_t deadline_ns) override;
  Status flush(tiers::Ticket ticket, std::uint64_t deadline_ns) override;
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override;
  void forget(const tiers::ChunkKey& key, std::uint64_t generation) override;
  Status evict(const tiers::ChunkKey& key) override;
  int message_fd() const override { return -1; }
  void take_messages(std::vector<tiers::Message>& out) override;
  tiers::TierState state() const override;
  tiers::TierCounters counters() const override { return counters_; }
  bool close(std::uint64_t grace_ms) override;

 private:
  struct Op {
    tiers::Operation operation;
    tiers::Ticket ticket;
    std::uint64_t number = 0;  // of the chunk; of a drop the namespace, kSpaces: all
    std::uint64_t due_ns = 0, deadline_ns = 0;
    tiers::ChunkFacts facts = {};
    std::span<const std::byte> source = {};
    std::span<std::byte> target = {};
    std::vector<tiers::ChunkKey> keys = {};
    bool cancelled = false;  // dropped or evicted meanwhile
  };

  Status enter(Op op, std::uint64_t deadline_ns);
  Status drop(tiers::Ticket ticket, std::uint64_t space, std::uint64_t deadline_ns);
  void answer(const Op& op, Status status, const tiers::ChunkFacts& facts = {},
              std::vector<bool> there = {});
  void carry_out(const Op& op);
  void store(const Op& op);
  void load(const Op& op);
  void look_at(const Op& op);
  void tend_drops();
  bool hidden(std::uint64_t space) const;
  void know(std::uint64_t number, const tiers::ChunkFacts& facts);
  void forget_number(std::uint64_t number);
  bool fails() { return machine_.server->flaky && machine_.one_in(4); }

  Machine& machine_;
  Model& model_;
  std::shared_ptr<tiers::Residents> residents_;  // as a real tier has it
  std::list<Op> ops_;                            // in the order in which they came
  struct Drop {
    std::uint64_t space;  // kSpaces: all
    std::uint64_t floors[kSpaces] = {};
  };
  std::list<Drop> drops_;  // the server has still to do these
  std::map<std::uint64_t, tiers::ChunkFacts> known_;
  BroughtUp up_;
  std::vector<tiers::Message> messages_;
  tiers::TierCounters counters_;
  std::uint64_t life_ = 0;  // the known life of the server
  bool away_ = false, closed_ = false;
};

}  // namespace larder::sim
