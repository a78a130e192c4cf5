// PluginEngine: the plug-in tier without its thread: commands in, messages out, one turn at a time.
//
// Bytes are copied between slots and the bounce region by this engine alone, so an operation never
// leaves a slot busy.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/net/poller.h"
#include "sidecar/tiers/command.h"
#include "sidecar/tiers/known_chunks.h"
#include "sidecar/tiers/plugin/calls.h"
#include "sidecar/tiers/plugin/drops.h"
#include "sidecar/tiers/plugin/layouts.h"
#include "sidecar/tiers/plugin/options.h"
#include "sidecar/tiers/plugin/plugin_link.h"
#include "sidecar/tiers/plugin/record.h"
#include "sidecar/tiers/plugin/removals.h"
#include "sidecar/tiers/tier_front.h"

namespace larder::plugin {

using KnownChunks = tiers::KnownChunks<Chunk>;

class PluginEngine {
 public:
  // All arguments outlive this object.
  PluginEngine(const base::Clock& clock, const PluginOptions& options, KnownChunks& known,
               Layouts& layouts);

  Status start();
  void accept(tiers::Command command);
  // One round: answers, new commands, deadlines. Waits up to `timeout_ns` without work.
  void turn(std::uint64_t timeout_ns);
  // The longest allowed time until the next turn.
  std::uint64_t next_turn_ns() const;
  void wake() const { poller_.wake(); }  // thread-safe

  void take_outcomes(std::vector<tiers::Outcome>& out);
  bool idle() const;
  // Answers all open operations; no slot is touched afterwards.
  void abandon(const Status& why);
  tiers::TierFront::View view() const;

 private:
  // In one turn: the answers of a turn are published at its end.
  static constexpr std::uint64_t kTurnBytes = 8ULL << 20;  // copied
  static constexpr std::size_t kTurnPackets = 64;          // received

  // An accepted command with its progress.
  struct Op {
    tiers::Command command;
    enum class Step { kWaiting, kMoving, kComparing, kRemoving } step = Step::kWaiting;
    bool cancelled = false;  // dropped or evicted meanwhile: fails whatever the plug-in answers
    bool again = false;      // put: the second attempt, after another object was removed
  };
  using Operations = std::map<std::uint64_t, Op>;  // by serial
  using Serials = std::deque<std::uint64_t>;

  void finish(std::uint64_t serial, Status status, const tiers::ChunkFacts& facts = {},
              std::vector<bool> there = {}, std::uint64_t dropped = 0);
  // Ends the operations for which which(serial, op) is true.
  template <class Which>
  void finish_all(const Which& which, const Status& why);
  void count(const tiers::Command& command, const Status& status, const tiers::ChunkFacts& facts);
  void forget(const tiers::ChunkKey& key, std::uint64_t generation);
  void evict(const tiers::ChunkKey& key);
  void begin_drop(std::uint64_t serial);

  void pump();
  // Both: false while the operation must wait.
  bool start_get(std::uint64_t serial, Op& op);
  bool start_put(std::uint64_t serial, Op& op);
  bool write(std::uint64_t serial, Op& op);
  void pump_all(Serials& waiting, bool (PluginEngine::*begin)(std::uint64_t, Op&));

  void take_answers();
  void take(const Packet& packet);
  void on_done(const Done& done);
  void on_found(const Found& found);
  void on_got(std::uint64_t serial, Op& op, const Call& call, const Done& done);
  void on_put(std::uint64_t serial, Op& op, Outcome outcome);
  void on_compared(std::uint64_t serial, Op& op, const Call& call, const Done& done);
  void on_removed(std::uint64_t serial, Op& op, Outcome outcome);
  void on_cleared(const Done& done);
  std::optional<tiers::ChunkFacts> record_of(const Call& call, const Done& done);
  void learn(const Chunk& chunk);
  void fault(const std::string& what);

  void miss_deadlines();
  void maintain_flushes();
  void check_patience();
  void check_life();
  std::uint64_t patience_ns() const;
  bool takes(tiers::Operation operation) const;
  tiers::TierState state() const;

  const base::Clock& clock_;
  const PluginOptions& options_;
  KnownChunks& known_;
  Layouts& layouts_;
  net::Poller poller_;
  PluginLink link_;
  OpenCalls calls_;
  Removals removals_;
  Drops drops_;
  State state_;  // as the plug-in told in this life
  Operations operations_;
  Serials gets_, puts_;  // waiting; some may have ended
  // The put of each key that has begun: another put of the key waits for its end.
  std::unordered_map<tiers::ChunkKey, std::uint64_t, tiers::ChunkKeyHash> putting_;
  std::deque<Done> dones_;  // received, and not handled yet
  std::vector<tiers::Outcome> outcomes_;
  tiers::TierCounters counters_;
  std::uint64_t last_serial_ = 0, life_ = 0, last_answer_ns_ = 0;
  std::uint64_t copied_bytes_ = 0;  // in this turn
  bool degraded_ = false;
};

}  // namespace larder::plugin
