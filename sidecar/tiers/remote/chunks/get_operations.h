// GetOperations: reads chunks, and probes records. Owned by the thread of the tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/chunks/backend_health.h"
#include "sidecar/tiers/remote/chunks/garbage_queue.h"
#include "sidecar/tiers/remote/chunks/known_chunks.h"
#include "sidecar/tiers/remote/chunks/operation_table.h"
#include "sidecar/tiers/remote/chunks/server_commands.h"

namespace larder::remote {

class GetOperations {
 public:
  // All arguments outlive this object.
  GetOperations(const EngineServices& services, ServerCommands& commands,
                const BackendHealth& health, OperationTable& operations, GarbageQueue& garbage)
      : clock_(services.clock),
        options_(services.options),
        known_(services.known),
        backend_(services.backend),
        commands_(commands),
        health_(health),
        operations_(operations),
        garbage_(garbage) {}
  GetOperations(const GetOperations&) = delete;
  GetOperations& operator=(const GetOperations&) = delete;

  void add(const OpPtr& op) { reads_.push_back(op); }  // a get or a probe
  // Starts waiting operations, in order, up to the bytes that the options allow in flight.
  void pump();
  void fail_waiting(const Status& why);
  void clear() { reads_.clear(); }

 private:
  void finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts = {}) {
    operations_.finish(op, std::move(status), facts);
  }
  void start_get(const OpPtr& op);
  void ask_record(const OpPtr& op);
  void record_came(const OpPtr& op, const Status& lost, const Reply& reply);
  void ask_parts(const OpPtr& op);
  void part_came(const OpPtr& op, std::size_t wanted, const Status& lost, const Reply& reply);
  void parts_came(const OpPtr& op);
  void start_probe(const OpPtr& op);
  void key_looked_at(const OpPtr& op, std::size_t number, const Status& lost, const Reply& reply);

  const base::Clock& clock_;
  const RemoteOptions& options_;
  KnownChunks& known_;
  Backend& backend_;
  ServerCommands& commands_;
  const BackendHealth& health_;
  OperationTable& operations_;
  GarbageQueue& garbage_;

  std::deque<OpPtr> reads_;  // not started
};

}  // namespace larder::remote
