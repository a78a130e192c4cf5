// RemoteEngine: the remote tier without its thread: commands in, messages out, one turn at a time.
// Owned by one thread.
//
// remote_engine.cc has the turn and flushes, put_operations.cc puts.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/chunks/backend_health.h"
#include "sidecar/tiers/remote/chunks/garbage_queue.h"
#include "sidecar/tiers/remote/chunks/get_operations.h"
#include "sidecar/tiers/remote/chunks/known_chunks.h"
#include "sidecar/tiers/remote/chunks/namespace_drops.h"
#include "sidecar/tiers/remote/chunks/operation_table.h"
#include "sidecar/tiers/remote/chunks/server_commands.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/topology/backend.h"
#include "sidecar/tiers/tier.h"

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
  bool idle() const { return operations_.live().empty() && (!backend_.ready() || !garbage_.removing(UINT64_MAX)); }
  // Answers all open operations; no slot is touched afterwards.
  void abandon(const Status& why);

  tiers::TierState state() const { return health_.state(); }
  tiers::TierCounters counters() const;  // without `refused` and in_flight_bytes
  std::size_t drops() const { return drops_.size(); }
  std::size_t unwanted() const { return garbage_.size(); }

 private:
  // remote_engine.cc
  void finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts = {}) {
    operations_.finish(op, std::move(status), facts);
  }
  void put_ended(const OpPtr& op, const Status& status);
  void maintain_flushes();
  void fail_waiting(bool puts, bool gets);
  void fail_awaiting(const Status& why);

  // put_operations.cc
  void pump_writes();
  void start_put(const OpPtr& op);
  void put_probed(const OpPtr& op, const Status& lost, const Reply& reply);
  void send_probed();
  void send_parts(const OpPtr& op);
  void send_part(const OpPtr& op, std::size_t number);
  void part_stored(const OpPtr& op, std::size_t number, const Status& lost, const Reply& reply);
  void parts_stored(const OpPtr& op);
  void record_stored(const OpPtr& op, const Status& lost, const Reply& reply);
  void note_failure(const OpPtr& op, const std::string& key, const Status& lost, const Reply& reply);
  std::vector<std::string> gate_keys(const Record& record) const;
  bool refuses(const OpPtr& op, const std::vector<std::string>& keys);
  void tell_gates(const OpPtr& op, const Status& status);

  const base::Clock& clock_;
  const RemoteOptions& options_;
  KnownChunks& known_;
  Backend backend_;
  BackendHealth health_;
  ServerCommands commands_;
  OperationTable operations_;
  GarbageQueue garbage_;
  NamespaceDrops drops_;
  GetOperations gets_;

  std::deque<OpPtr> writes_;
  std::size_t looking_ = 0;   // puts that read the earlier record
  std::deque<OpPtr> probed_;  // puts that wait for the write window
};

}  // namespace larder::remote
