#include "sidecar/tiers/disk/operation_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace larder::disk {

using tiers::Message;
using tiers::Operation;

OpPtr OperationTable::add(const Command& command) {
  const OpPtr op = std::make_shared<Op>();
  op->command = command;
  live_.push_back(op);
  // A lower bound only: the deadline of a finished operation costs one early scan.
  next_deadline_ns_ = std::min(next_deadline_ns_, command.deadline_ns);
  return op;
}

void OperationTable::finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts) {
  // The device, a deadline and a drop may each end the operation. The first one answers; exactly
  // one kDone goes out.
  if (op->done) return;
  op->done = true;
  const Operation operation = op->command.operation;
  const bool ok = status.ok();
  if (operation == Operation::kPut) {
    ++(ok ? counters_.puts : counters_.puts_failed);
    if (ok) counters_.put_bytes += op->command.slot.size();
  } else if (operation == Operation::kGet) {
    ++(ok                                 ? counters_.gets
       : status.code() == Code::kNotFound ? counters_.gets_missed
                                          : counters_.gets_failed);
    if (ok) counters_.get_bytes += facts.slot_bytes();
  }
  if (status.code() == Code::kDeadlineExceeded) ++counters_.deadlines_missed;
  Outcome outcome;
  outcome.message = {Message::Kind::kDone, operation,         op->on_device,
                     op->command.ticket,   std::move(status), facts};
  outcome.message.dropped = op->dropped;
  // The device may still read or write the slot after a missed deadline. The slot is freed by
  // released().
  outcome.freed = !op->on_device;
  outcome.freed_bytes = op->on_device ? 0 : op->command.slot.size();
  outcomes_.push_back(std::move(outcome));
  live_.remove(op);
}

// The second message of an operation whose kDone went out while the device had the slot. Only this
// message lets the store use the slot again.
void OperationTable::released(const OpPtr& op) {
  Outcome outcome;
  outcome.message = {
      Message::Kind::kReleased, op->command.operation, false, op->command.ticket, {}, {}};
  outcome.freed = true;
  outcome.freed_bytes = op->command.slot.size();
  outcomes_.push_back(std::move(outcome));
}

void OperationTable::cancel(const std::function<bool(const tiers::ChunkKey&)>& cancelled) {
  for (auto next = live_.begin(); next != live_.end();) {
    const OpPtr op = *next++;  // finish() may remove it from the list
    const Operation operation = op->command.operation;
    if ((operation != Operation::kPut && operation != Operation::kGet) ||
        !cancelled(op->command.key))
      continue;
    op->cancelled = true;
    if (!op->on_device) finish(op, {Code::kNotFound, "dropped meanwhile"});
  }
}

void OperationTable::miss_deadlines() {
  const std::uint64_t now = clock_.now_ns();
  if (now < next_deadline_ns_) return;
  next_deadline_ns_ = UINT64_MAX;
  // A copy: finish() removes the operation from the list under the loop.
  const std::vector<OpPtr> all(live_.begin(), live_.end());
  for (const OpPtr& op : all) {
    if (op->command.deadline_ns <= now)  // mutation: disk-deadline
      finish(op, {Code::kDeadlineExceeded, "disk"});
    else
      next_deadline_ns_ = std::min(next_deadline_ns_, op->command.deadline_ns);
  }
}

void OperationTable::abandon(const Status& why) {
  const std::vector<OpPtr> all(live_.begin(), live_.end());
  for (const OpPtr& op : all) finish(op, why);
}

void OperationTable::take_outcomes(std::vector<Outcome>& out) {
  out.insert(out.end(), std::make_move_iterator(outcomes_.begin()),
             std::make_move_iterator(outcomes_.end()));
  outcomes_.clear();
}

}  // namespace larder::disk
