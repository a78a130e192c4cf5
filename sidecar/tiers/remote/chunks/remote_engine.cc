#include "sidecar/tiers/remote/chunks/remote_engine.h"

#include <algorithm>
#include <utility>

namespace larder::remote {

using tiers::Operation;

RemoteEngine::RemoteEngine(const base::Clock& clock, const RemoteOptions& options, KnownChunks& known)
    : clock_(clock),
      options_(options),
      known_(known),
      health_(options.retry_ms, options.most_retry_ms),
      backend_(options, clock, {[this] { next_scan_ns_ = 0; }, [this] { known_.erase_all(); }}),
      commands_({clock_, options_, known_, backend_}),
      operations_(clock, [this](const OpPtr& op, const Status& status) { put_ended(op, status); }),
      garbage_({clock_, options_, known_, backend_}, commands_, operations_) {}

void RemoteEngine::accept(Command command) {
  if (command.kind == Command::Kind::kForget) return garbage_.forget(command.key, command.facts.generation);
  if (command.kind == Command::Kind::kEvict) return garbage_.evict(command.key);
  const OpPtr op = operations_.add(std::move(command));
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
  backend_.turn(operations_.has_outcomes() ? 0 : timeout_ns);
  maintain_health();
  pump_reads();
  pump_writes();
  maintain_drops();
  operations_.miss_deadlines(backend_);
  garbage_.maintain(health_.is(Health::kReads));  // includes leftovers of late operations
  maintain_flushes();
  backend_.flush();
  maintain_health();  // replies during flush() are reported together with the health that they show
}

std::uint64_t RemoteEngine::next_turn_ns() const {
  const std::uint64_t now = clock_.now_ns();
  std::uint64_t next = std::min(now + backend_.next_turn_ns(), operations_.next_deadline_ns());
  if (!drops_.empty() && !drops_.front().asked && backend_.ready())
    next = std::min(next, std::max(next_scan_ns_, now + 1'000'000));
  next = std::min(next, garbage_.next_ns());
  return next <= now ? 0 : next - now;
}

// The steps of the end of a put that concern puts alone.
void RemoteEngine::put_ended(const OpPtr& op, const Status& status) {
  const bool ok = status.ok();
  if (op->started && !op->probed) --looking_;
  if (op->record.writing != 0) tell_gates(op, status);
  if (op->record.writing != 0 && !ok) garbage_.leave_behind(op->record);  // mutation: abandoned-parts
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

void RemoteEngine::abandon(const Status& why) {
  reads_.clear();
  writes_.clear();
  operations_.abandon(why);
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
  tiers::TierCounters counters = operations_.counters();
  counters.written_bytes = backend_.sent_bytes();
  counters.read_bytes = backend_.received_bytes();
  counters.times_degraded = health_.times();
  counters.chunks = known_.chunks();
  counters.used_bytes = known_.slot_bytes();
  return counters;
}

}  // namespace larder::remote
