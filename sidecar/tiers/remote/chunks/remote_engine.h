// RemoteEngine: the remote tier without its thread: commands in, messages out, one turn at a time.
// Owned by one thread.
//
// The engine owns one object for each kind of work, and has the turn and flushes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/chunks/backend_health.h"
#include "sidecar/tiers/remote/chunks/garbage_queue.h"
#include "sidecar/tiers/remote/chunks/get_operations.h"
#include "sidecar/tiers/remote/chunks/known_chunks.h"
#include "sidecar/tiers/remote/chunks/namespace_drops.h"
#include "sidecar/tiers/remote/chunks/operation_table.h"
#include "sidecar/tiers/remote/chunks/put_operations.h"
#include "sidecar/tiers/remote/chunks/server_commands.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/topology/backend.h"
#include "sidecar/tiers/tier_front.h"

namespace larder::remote {

class RemoteEngine {
 public:
  static constexpr std::size_t kMostDrops = NamespaceDrops::kMost;

  // All arguments outlive this object. The caller hides the namespace of a drop in `known` before
  // accept(); the engine shows it again once the drop is done.
  RemoteEngine(const base::Clock& clock, const RemoteOptions& options, KnownChunks& known);

  Status start() { return backend_.open(); }
  void accept(Command command);
  // One round: replies, new commands, deadlines. Waits up to `timeout_ns` without work.
  void turn(std::uint64_t timeout_ns);
  void take_outcomes(std::vector<Outcome>& out) { operations_.take_outcomes(out); }
  // The longest allowed time until the next turn.
  std::uint64_t next_turn_ns() const;
  void wake() const { backend_.wake(); }  // thread-safe

  // Whether all work is done, as far as the server allows.
  bool idle() const {
    return operations_.live().empty() && (!backend_.ready() || !garbage_.removing(UINT64_MAX));
  }
  // Answers all open operations; no slot is touched afterwards.
  void abandon(const Status& why);

  tiers::TierState state() const { return health_.state(); }
  tiers::TierFront::View view() const {
    return {state(), counters(), drops_.size(), garbage_.size()};
  }

 private:
  tiers::TierCounters counters() const;
  void finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts = {}) {
    operations_.finish(op, std::move(status), facts);
  }
  void maintain_flushes();
  void fail_waiting(bool puts, bool gets);
  void fail_awaiting(const Status& why);

  const base::Clock& clock_;
  KnownChunks& known_;
  Backend backend_;
  const EngineServices services_;
  // Each part refers only to the parts above.
  // A part calls upwards by a function from the constructor.
  BackendHealth health_;
  ServerCommands commands_;
  OperationTable operations_;
  GarbageQueue garbage_;
  NamespaceDrops drops_;
  GetOperations gets_;
  PutOperations puts_;
};

}  // namespace larder::remote
