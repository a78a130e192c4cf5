#include "sidecar/tiers/remote/chunks/operation_table.h"

#include <algorithm>
#include <iterator>

namespace larder::remote {

using tiers::Message;
using tiers::Operation;

// The serials of puts, drops and removals come from one sequence. Their order decides which of two
// operations on a key must wait for the other.
OpPtr OperationTable::add(Command command) {
  const OpPtr op = std::make_shared<Op>();
  op->command = std::move(command);
  op->serial = next_serial_++;
  live_.push_back(op);
  next_deadline_ns_ = std::min(next_deadline_ns_, op->command.deadline_ns);
  return op;
}

void OperationTable::finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts) {
  if (op->done) return;
  op->done = true;
  const Command& command = op->command;
  const bool ok = status.ok();
  if (command.operation == Operation::kPut) {
    ++(ok ? counters_.puts : op->again_ns != 0 ? counters_.refused : counters_.puts_failed);
    if (ok) counters_.put_bytes += command.slot.size();
    // Before the answer: the leftover parts must be in the queue when the caller begins the next
    // put of the key.
    put_ended_(op, status);
  } else if (command.operation == Operation::kGet) {
    ++(ok                                 ? counters_.gets
       : status.code() == Code::kNotFound ? counters_.gets_missed
                                          : counters_.gets_failed);
    if (ok) counters_.get_bytes += facts.slot_bytes();
  }
  if (status.code() == Code::kDeadlineExceeded) ++counters_.deadlines_missed;
  moves(op, 0);
  Outcome outcome;
  outcome.message = {Message::Kind::kDone, command.operation, false,
                     command.ticket,       std::move(status), facts};
  if (ok && command.operation == Operation::kProbe) outcome.message.there = std::move(op->there);
  if (ok) outcome.message.dropped = op->dropped;
  outcome.message.again_ns = op->again_ns;
  // Unlike the disk tier this tier gives a slot back before the message: a command is taken back,
  // a payload discarded, or a connection closed.
  outcome.freed_bytes = command.slot.size();
  outcomes_.push_back(std::move(outcome));
  live_.remove(op);
}

void OperationTable::moves(const OpPtr& op, std::uint64_t bytes) {
  // The difference is applied to the sum, so finish() can set 0 at any point of an operation.
  std::uint64_t& all = op->command.operation == Operation::kPut ? writing_bytes_ : reading_bytes_;
  all = all - op->moving + bytes;
  op->moving = bytes;
}

void OperationTable::miss_deadlines(Backend& backend) {
  const std::uint64_t now = clock_.now_ns();
  if (now < next_deadline_ns_) return;
  next_deadline_ns_ = UINT64_MAX;
  for (const OpPtr& op : all()) {
    if (op->command.deadline_ns > now) {
      next_deadline_ns_ = std::min(next_deadline_ns_, op->command.deadline_ns);
      continue;
    }
    finish(op, {Code::kDeadlineExceeded, "the server did not answer in time"});
    // After finish(): cancel() may close a connection, and its callbacks must find the operation
    // done.
    if (op->started) backend.cancel(op->serial);
  }
}

void OperationTable::abandon(const Status& why) {
  for (const OpPtr& op : all()) finish(op, why);
}

void OperationTable::take_outcomes(std::vector<Outcome>& out) {
  out.insert(out.end(), std::make_move_iterator(outcomes_.begin()),
             std::make_move_iterator(outcomes_.end()));
  outcomes_.clear();
}

}  // namespace larder::remote
