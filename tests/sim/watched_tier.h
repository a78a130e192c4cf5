// WatchedTier: the real disk tier, turn by turn, between larderd's classes and the simulated disk.
// WatchedTier sees each request and each answer. It checks the tier against the promises of tier.h
// (one answer, by the deadline; a slot returned once) and larderd against the Model (the chunks
// that may go down and come up). Until Machine::patient is set, it shortens deadlines, so that some
// are missed.
//
// A broken rule throws, from turn() and from requests. Owned by one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sidecar/tiers/disk/disk_tier.h"
#include "tests/sim/brought_up.h"
#include "tests/sim/machine.h"

namespace larder::sim {

class WatchedTier final : public tiers::Tier {
 public:
  // Both outlive the object.
  static Result<std::unique_ptr<WatchedTier>> open(Machine& machine, Model& model,
                                                   std::shared_ptr<tiers::Residents> residents);
  WatchedTier(Machine& machine, Model& model, std::unique_ptr<disk::SteppedTier> tier)
      : machine_(machine), model_(model), tier_(std::move(tier)) {}

  void turn();
  // Turns, and lets time pass, until there are messages or timeout_ms have passed.
  void wait(int timeout_ms);

  bool idle() const { return ops_.empty(); }
  bool reads_memory() const;  // a put is under way
  // a put of this chunk is under way, or has just ended
  bool on_its_way_down(std::uint64_t number) const;
  bool closed_well() const { return closed_.value_or(false); }
  // The chunk that a get brought into the arena; each one once.
  std::optional<Up> take_up(tiers::Ticket ticket) { return up_.take(ticket); }
  std::uint64_t went_down = 0, came_up = 0, flushes = 0;  // successful ones

  Status put(tiers::Ticket ticket, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts,
             std::span<const std::byte> slot, std::uint64_t deadline_ns) override;
  Status get(tiers::Ticket ticket, const tiers::ChunkKey& key, std::span<std::byte> slot,
             std::uint64_t deadline_ns) override;
  Status drop_namespace(tiers::Ticket ticket, const protocol::NamespaceId& id,
                        std::uint64_t deadline_ns) override;
  Status clear(tiers::Ticket ticket, std::uint64_t deadline_ns) override;
  Status flush(tiers::Ticket ticket, std::uint64_t deadline_ns) override;
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override {
    return tier_->probe(key);
  }
  void forget(const tiers::ChunkKey& key, std::uint64_t generation) override {
    tier_->forget(key, generation);
  }
  Status evict(const tiers::ChunkKey& key) override { return tier_->evict(key); }
  Status probe(tiers::Ticket, std::span<const tiers::ChunkKey>, std::uint64_t) override {
    return {Code::kUnavailable, "no looks here"};
  }
  int message_fd() const override { return tier_->message_fd(); }
  void take_messages(std::vector<tiers::Message>& out) override;
  tiers::TierState state() const override { return tier_->state(); }
  tiers::TierCounters counters() const override { return tier_->counters(); }
  bool close(std::uint64_t grace_ms) override;

 private:
  struct Op {
    tiers::Operation operation;
    std::uint64_t number = 0;  // of the chunk; of a drop the namespace, kSpaces: all
    std::uint64_t deadline_ns = 0;
    std::optional<std::uint64_t> offset;  // of a get: in the arena
    std::uint64_t floors[kSpaces] = {};   // of a drop: the newest dropped generation
    bool done = false;                    // answered, but the device still has the slot
  };

  std::uint64_t soon(std::uint64_t deadline_ns);
  Status enter(tiers::Ticket ticket, const Op& op, const Status& taken);
  void took_drop(std::uint64_t space);
  void see_messages();
  void look_at(const tiers::Message& message);
  void ended_well(const Op& op, const tiers::Message& message);

  Machine& machine_;
  Model& model_;
  std::unique_ptr<disk::SteppedTier> tier_;
  std::map<tiers::Ticket, Op> ops_;
  BroughtUp up_;
  std::vector<tiers::Message> messages_;
  std::uint64_t turns_ = 0;
  std::map<std::uint64_t, std::uint64_t> put_ended_;  // the turn, by number of the chunk
  std::optional<bool> closed_;
};

}  // namespace larder::sim
