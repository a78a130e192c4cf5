// OperationTable: the operations without an answer, their bytes in flight, and the answers that the
// tier has not taken. Owned by the thread of the tier.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <utility>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/chunks/operation.h"
#include "sidecar/tiers/remote/topology/backend.h"

namespace larder::remote {

class OperationTable {
 public:
  // Called in finish() for each put, after the put is counted and before the put has an answer.
  using PutEnded = std::function<void(const OpPtr& op, const Status& status)>;

  OperationTable(const base::Clock& clock, PutEnded put_ended)
      : clock_(clock), put_ended_(std::move(put_ended)) {}
  OperationTable(const OperationTable&) = delete;
  OperationTable& operator=(const OperationTable&) = delete;

  OpPtr add(Command command);
  // The next number of the one sequence that orders operations and removals.
  std::uint64_t take_serial() { return next_serial_++; }
  // Answers the operation; a second call does nothing. `facts`: of a chunk that was read.
  void finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts = {});
  // Sets the bytes of an operation that are in flight.
  void moves(const OpPtr& op, std::uint64_t bytes);
  // Finishes late operations, and takes their commands back from `backend`, which releases the
  // slots. The caller takes the outcomes afterwards.
  void miss_deadlines(Backend& backend);
  void abandon(const Status& why);  // finishes all operations

  bool has_outcomes() const { return !outcomes_.empty(); }
  void take_outcomes(std::vector<Outcome>& out);

  const std::list<OpPtr>& live() const { return live_; }
  // A copy of live(), for a caller that finishes operations.
  std::vector<OpPtr> all() const { return {live_.begin(), live_.end()}; }
  // Puts with a record in flight, including puts that were given up.
  const std::vector<OpPtr>& recording() const { return recording_; }
  void begin_record(const OpPtr& op) { recording_.push_back(op); }
  void end_record(const OpPtr& op) { std::erase(recording_, op); }

  std::uint64_t reading_bytes() const { return reading_bytes_; }
  std::uint64_t writing_bytes() const { return writing_bytes_; }
  std::uint64_t next_deadline_ns() const { return next_deadline_ns_; }  // a lower bound
  tiers::TierCounters& counters() { return counters_; }
  const tiers::TierCounters& counters() const { return counters_; }

 private:
  const base::Clock& clock_;
  const PutEnded put_ended_;
  std::list<OpPtr> live_;  // accepted and not done
  std::vector<OpPtr> recording_;
  std::vector<Outcome> outcomes_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t reading_bytes_ = 0, writing_bytes_ = 0;  // in flight
  std::uint64_t next_deadline_ns_ = UINT64_MAX;
  tiers::TierCounters counters_;
};

}  // namespace larder::remote
