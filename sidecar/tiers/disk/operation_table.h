// OperationTable: the operations that are accepted and not done, and the messages to come. Counts
// puts, gets and missed deadlines. Owned by the thread of the tier.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/disk/operation.h"

namespace larder::disk {

class OperationTable {
 public:
  // Both outlive this object.
  OperationTable(const base::Clock& clock, tiers::TierCounters& counters)
      : clock_(clock), counters_(counters) {}
  OperationTable(const OperationTable&) = delete;

  OpPtr add(const Command& command);
  // Makes the message kDone, once: an operation that is done already stays as it is.
  void finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts = {});
  // The device released the slot of an operation that has its kDone already.
  void released(const OpPtr& op);
  // Fails puts and gets of cancelled chunks, even if the device succeeds.
  void cancel(const std::function<bool(const tiers::ChunkKey&)>& cancelled);
  void miss_deadlines();
  // Finishes all with `why`.
  void abandon(const Status& why);

  // In the order of acceptance. finish() changes the list.
  const std::list<OpPtr>& live() const { return live_; }
  bool has_outcomes() const { return !outcomes_.empty(); }
  void take_outcomes(std::vector<Outcome>& out);
  std::uint64_t next_deadline_ns() const {
    return next_deadline_ns_;
  }  // a lower bound; UINT64_MAX: none

 private:
  const base::Clock& clock_;
  tiers::TierCounters& counters_;
  std::list<OpPtr> live_;
  std::vector<Outcome> outcomes_;
  std::uint64_t next_deadline_ns_ = UINT64_MAX;
};

}  // namespace larder::disk
