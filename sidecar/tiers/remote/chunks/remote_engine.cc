#include "sidecar/tiers/remote/chunks/remote_engine.h"

#include <algorithm>
#include <utility>

namespace larder::remote {

using tiers::Message;
using tiers::Operation;

RemoteEngine::RemoteEngine(const base::Clock& clock, const RemoteOptions& options, KnownChunks& known)
    : clock_(clock),
      options_(options),
      known_(known),
      health_(options.retry_ms, options.most_retry_ms),
      backend_(options, clock, {[this] { next_scan_ns_ = 0; }, [this] { known_.erase_all(); }}),
      commands_({clock_, options_, known_, backend_}) {}

void RemoteEngine::accept(Command command) {
  if (command.kind == Command::Kind::kForget) return forget(command.key, command.facts.generation);
  if (command.kind == Command::Kind::kEvict) return evict(command.key);
  const OpPtr op = std::make_shared<Op>();
  op->command = std::move(command);
  op->serial = next_serial_++;
  live_.push_back(op);
  next_deadline_ns_ = std::min(next_deadline_ns_, op->command.deadline_ns);
  // The tier may have become degraded since the caller checked.
  const tiers::TierState state = health_.state();
  const Status refused{Code::kUnavailable, state.reason};
  switch (op->command.operation) {
    case Operation::kPut: state.takes_puts ? writes_.push_back(op) : finish(op, refused); break;
    case Operation::kProbe:
    case Operation::kGet: state.takes_gets ? reads_.push_back(op) : finish(op, refused); break;
    case Operation::kDrop:
    case Operation::kClear: drop(op); break;
    case Operation::kFlush: break;  // maintain_flushes() finds it
  }
}

void RemoteEngine::turn(std::uint64_t timeout_ns) {
  backend_.turn(outcomes_.empty() ? timeout_ns : 0);
  maintain_health();
  pump_reads();
  pump_writes();
  maintain_drops();
  miss_deadlines();
  maintain_garbage();  // includes leftovers of late operations
  maintain_flushes();
  backend_.flush();
  maintain_health();  // replies during flush() are reported together with the health that they show
}

void RemoteEngine::take_outcomes(std::vector<Outcome>& out) {
  out.insert(out.end(), std::make_move_iterator(outcomes_.begin()), std::make_move_iterator(outcomes_.end()));
  outcomes_.clear();
}

std::uint64_t RemoteEngine::next_turn_ns() const {
  const std::uint64_t now = clock_.now_ns();
  std::uint64_t next = std::min(now + backend_.next_turn_ns(), next_deadline_ns_);
  if (!drops_.empty() && !drops_.front().asked && backend_.ready())
    next = std::min(next, std::max(next_scan_ns_, now + 1'000'000));
  next = std::min(next, next_unwanted_ns_);
  return next <= now ? 0 : next - now;
}

void RemoteEngine::finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts) {
  if (op->done) return;
  op->done = true;
  const Command& command = op->command;
  const bool ok = status.ok();
  if (command.operation == Operation::kPut) {
    ++(ok ? counters_.puts : op->again_ns != 0 ? counters_.refused : counters_.puts_failed);
    if (ok) counters_.put_bytes += command.slot.size();
    if (op->started && !op->probed) --looking_;
    if (op->record.writing != 0) tell_gates(op, status);
    if (op->record.writing != 0 && !ok) leave_behind(op->record);  // mutation: abandoned-parts
  } else if (command.operation == Operation::kGet) {
    ++(ok ? counters_.gets : status.code() == Code::kNotFound ? counters_.gets_missed : counters_.gets_failed);
    if (ok) counters_.get_bytes += facts.slot_bytes();
  }
  if (status.code() == Code::kDeadlineExceeded) ++counters_.deadlines_missed;
  moves(op, 0);
  Outcome outcome;
  outcome.message = {Message::Kind::kDone, command.operation, false, command.ticket, std::move(status), facts};
  if (ok && command.operation == Operation::kProbe) outcome.message.there = std::move(op->there);
  if (ok) outcome.message.dropped = op->dropped;
  outcome.message.again_ns = op->again_ns;
  outcome.freed_bytes = command.slot.size();
  outcomes_.push_back(std::move(outcome));
  live_.remove(op);
}

// Sets the bytes of an operation that are in flight.
void RemoteEngine::moves(const OpPtr& op, std::uint64_t bytes) {
  std::uint64_t& all = op->command.operation == Operation::kPut ? writing_bytes_ : reading_bytes_;
  all = all - op->moving + bytes;
  op->moving = bytes;
}

// Fails waiting operations at once when the server hangs or refuses.
void RemoteEngine::fail_waiting(bool puts, bool gets) {
  const Status why{Code::kUnavailable, health_.state().reason};
  const auto fail = [&](std::deque<OpPtr>& waiting) {
    for (const OpPtr& op : std::exchange(waiting, {})) finish(op, why);
  };
  if (puts) fail(writes_);
  if (puts) fail(probed_);
  if (gets) fail(reads_);
}

// The connections release the slot first; only then the message may be taken.
void RemoteEngine::miss_deadlines() {
  const std::uint64_t now = clock_.now_ns();
  if (now < next_deadline_ns_) return;
  next_deadline_ns_ = UINT64_MAX;
  const std::vector<OpPtr> all(live_.begin(), live_.end());
  for (const OpPtr& op : all) {
    if (op->command.deadline_ns > now) {
      next_deadline_ns_ = std::min(next_deadline_ns_, op->command.deadline_ns);
      continue;
    }
    finish(op, {Code::kDeadlineExceeded, "the server did not answer in time"});
    if (op->started) backend_.cancel(op->serial);
  }
}

void RemoteEngine::abandon(const Status& why) {
  reads_.clear();
  writes_.clear();
  const std::vector<OpPtr> all(live_.begin(), live_.end());
  for (const OpPtr& op : all) finish(op, why);
  backend_.restart(why);
}

tiers::TierState RemoteEngine::state() const {
  tiers::TierState state = health_.state();
  if (state.reason.empty()) state.reason = part_;
  if (state.reason.empty()) state.reason = refused_chunks_;
  const char* const mode = options_.mode == Mode::kCluster ? "Cluster, " : options_.mode == Mode::kSentinel ? "Sentinel, " : "";
  state.mode = std::string(mode) + (!options_.unix_path.empty() ? "Unix socket" : options_.tls.enabled ? "TLS" : "TCP");
  return state;
}

tiers::TierCounters RemoteEngine::counters() const {
  tiers::TierCounters counters = counters_;
  counters.written_bytes = backend_.sent_bytes();
  counters.read_bytes = backend_.received_bytes();
  counters.times_degraded = health_.times();
  counters.chunks = known_.chunks();
  counters.used_bytes = known_.slot_bytes();
  return counters;
}

}  // namespace larder::remote
