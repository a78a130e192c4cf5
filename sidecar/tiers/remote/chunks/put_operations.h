// PutOperations: stores chunks: reads the earlier record, sends the parts, then the record. Owned
// by the thread of the tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/chunks/backend_health.h"
#include "sidecar/tiers/remote/chunks/garbage_queue.h"
#include "sidecar/tiers/remote/chunks/known_chunks.h"
#include "sidecar/tiers/remote/chunks/namespace_drops.h"
#include "sidecar/tiers/remote/chunks/operation_table.h"
#include "sidecar/tiers/remote/chunks/server_commands.h"

namespace larder::remote {

class PutOperations {
 public:
  // All arguments outlive this object.
  PutOperations(const EngineServices& services, ServerCommands& commands,
                const BackendHealth& health, OperationTable& operations, GarbageQueue& garbage,
                const NamespaceDrops& drops)
      : clock_(services.clock),
        options_(services.options),
        known_(services.known),
        backend_(services.backend),
        commands_(commands),
        health_(health),
        operations_(operations),
        garbage_(garbage),
        drops_(drops) {}
  PutOperations(const PutOperations&) = delete;
  PutOperations& operator=(const PutOperations&) = delete;

  void add(const OpPtr& op) { writes_.push_back(op); }
  // Starts waiting puts, in order, and sends parts up to the bytes that the options allow in
  // flight.
  void pump();
  void fail_waiting(const Status& why);  // fails the puts that have sent no part
  void clear() { writes_.clear(); }
  // OperationTable calls this function at the end of each put: the gates of the servers hear of the
  // end, and the parts of a failed put are removed.
  void ended(const OpPtr& op, const Status& status);

 private:
  void finish(const OpPtr& op, Status status) { operations_.finish(op, std::move(status)); }
  void start_put(const OpPtr& op);
  void put_probed(const OpPtr& op, const Status& lost, const Reply& reply);
  void send_probed();
  void send_parts(const OpPtr& op);
  void send_part(const OpPtr& op, std::size_t number);
  void part_stored(const OpPtr& op, std::size_t number, const Status& lost, const Reply& reply);
  void parts_stored(const OpPtr& op);
  void record_stored(const OpPtr& op, const Status& lost, const Reply& reply);
  void note_failure(const OpPtr& op, const std::string& key, const Status& lost,
                    const Reply& reply);
  std::vector<std::string> gate_keys(const Record& record) const;
  bool refuses(const OpPtr& op, const std::vector<std::string>& keys);
  void tell_gates(const OpPtr& op, const Status& status);

  const base::Clock& clock_;
  const RemoteOptions& options_;
  KnownChunks& known_;
  Backend& backend_;
  ServerCommands& commands_;
  const BackendHealth& health_;
  OperationTable& operations_;
  GarbageQueue& garbage_;
  const NamespaceDrops& drops_;

  std::deque<OpPtr> writes_;  // not started
  std::size_t looking_ = 0;   // puts that read the earlier record
  std::deque<OpPtr> probed_;  // puts that wait for the write window
};

}  // namespace larder::remote
