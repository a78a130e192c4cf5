#include "sidecar/tiers/remote/chunks/remote_engine.h"

#include <algorithm>
#include <utility>

namespace larder::remote {

using tiers::Operation;

RemoteEngine::RemoteEngine(const base::Clock& clock, const RemoteOptions& options,
                           KnownChunks& known)
    : clock_(clock),
      known_(known),
      // Another run_id or another master may have lost chunks. Known chunks are only a shortcut,
      // so all are forgotten.
      backend_(options, clock, {[this] { drops_.scan_now(); }, [this] { known_.erase_all(); }}),
      services_{clock, options, known, backend_},
      health_(clock, options, backend_,
              {[this](bool puts, bool gets) { fail_waiting(puts, gets); },
               [this](const Status& why) { fail_awaiting(why); }}),
      commands_(services_),
      operations_(clock,
                  [this](const OpPtr& op, const Status& status) { puts_.ended(op, status); }),
      garbage_(services_, commands_, operations_),
      drops_(services_, commands_, operations_),
      gets_(services_, commands_, health_, operations_, garbage_),
      puts_(services_, commands_, health_, operations_, garbage_, drops_) {}

void RemoteEngine::accept(Command command) {
  if (command.kind == Command::Kind::kForget)
    return garbage_.forget(command.key, command.facts.generation);
  if (command.kind == Command::Kind::kEvict) return garbage_.evict(command.key);
  const OpPtr op = operations_.add(std::move(command));
  // The tier may have become degraded since the caller checked.
  switch (op->command.operation) {
    case Operation::kPut: health_.takes_puts() ? puts_.add(op) : finish(op, health_.why()); break;
    case Operation::kProbe:
    case Operation::kGet: health_.takes_gets() ? gets_.add(op) : finish(op, health_.why()); break;
    case Operation::kDrop:
    case Operation::kClear: drops_.begin(op); break;
    case Operation::kFlush: break;  // maintain_flushes() finds it
  }
}

void RemoteEngine::turn(std::uint64_t timeout_ns) {
  // Outcomes must not wait here for the next reply.
  backend_.turn(operations_.has_outcomes() ? 0 : timeout_ns);
  health_.maintain();
  gets_.pump();
  puts_.pump();
  drops_.maintain();
  operations_.miss_deadlines(backend_);
  garbage_.maintain(health_.reads_fail());  // includes leftovers of late operations
  maintain_flushes();
  // One write per connection and turn: the commands of all operations of this turn go out
  // together.
  backend_.flush();
  // Replies during flush() are reported together with the health that they show.
  health_.maintain();
}

std::uint64_t RemoteEngine::next_turn_ns() const {
  const std::uint64_t now = clock_.now_ns();
  std::uint64_t next = std::min(now + backend_.next_turn_ns(), operations_.next_deadline_ns());
  next = std::min(next, drops_.next_ns(now));
  next = std::min(next, garbage_.next_ns());
  return next <= now ? 0 : next - now;
}

void RemoteEngine::maintain_flushes() {
  const auto is_flush = [](const OpPtr& op) { return op->command.operation == Operation::kFlush; };
  if (std::ranges::none_of(operations_.live(), is_flush)) return;
  for (const OpPtr& flush : operations_.all()) {
    if (!is_flush(flush)) continue;
    const auto before = [&](const OpPtr& op) {
      return op->command.operation == Operation::kPut && op->serial < flush->serial;
    };
    const bool puts = std::ranges::any_of(operations_.live(), before);
    // Only what was accepted before the flush counts; a steady stream of puts would otherwise hold
    // up a stop.
    if (!puts && !garbage_.removing(flush->serial)) finish(flush, {});
  }
}

// Fails waiting operations at once when the server hangs or refuses.
void RemoteEngine::fail_waiting(bool puts, bool gets) {
  const Status why = health_.why();
  if (puts) puts_.fail_waiting(why);
  if (gets) gets_.fail_waiting(why);
}

// Callers do not wait for a server that is away: the namespace of a drop stays hidden, and the drop
// is done when the server is back.
void RemoteEngine::fail_awaiting(const Status& why) {
  const auto awaits_it = [](Operation operation) {
    return operation == Operation::kFlush || operation == Operation::kDrop ||
           operation == Operation::kClear;
  };
  for (const OpPtr& op : operations_.all())
    if (awaits_it(op->command.operation)) finish(op, why);
}

void RemoteEngine::abandon(const Status& why) {
  gets_.clear();
  puts_.clear();
  operations_.abandon(why);
  // Last: the callbacks of the closing connections find every operation answered.
  backend_.restart(why);
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
