#include "sidecar/tiers/plugin/plugin_engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sidecar/base/sizes.h"

namespace larder::plugin {

using tiers::Command;
using tiers::Message;
using tiers::Operation;

PluginEngine::PluginEngine(const base::Clock& clock, const PluginOptions& options,
                           KnownChunks& known, Layouts& layouts)
    : clock_(clock),
      options_(options),
      known_(known),
      layouts_(layouts),
      link_(options, clock, poller_),
      calls_(options, clock, link_),
      drops_(options.prefix) {}

Status PluginEngine::start() {
  if (Status status = poller_.open(); !status.ok()) return status;
  return link_.open();
}

void PluginEngine::accept(Command command) {
  const std::uint64_t serial = ++last_serial_;
  if (command.kind == Command::Kind::kForget) return forget(command.key, command.facts.generation);
  if (command.kind == Command::Kind::kEvict) return evict(command.key);
  const Op& op = operations_.emplace(serial, Op{std::move(command)}).first->second;
  const Operation operation = op.command.operation;
  // The tier may have become degraded since the caller checked.
  if (!takes(operation)) return finish(serial, {Code::kUnavailable, state().reason});
  switch (operation) {
    case Operation::kPut: puts_.push_back(serial); break;
    case Operation::kGet: gets_.push_back(serial); break;
    case Operation::kProbe:
      if (calls_.exists() >= OpenCalls::kMostExists)
        finish(serial, {Code::kResourceExhausted, "the plug-in leaves too many probes unanswered"});
      else
        calls_.exist(serial, op.command.keys);
      break;
    case Operation::kDrop:
    case Operation::kClear: begin_drop(serial); break;
    case Operation::kFlush: break;  // maintain_flushes() finds it
  }
}

void PluginEngine::turn(std::uint64_t timeout_ns) {
  // Outcomes of accept() wait already: no sleep before they are taken.
  poller_.wait(outcomes_.empty() ? timeout_ns : 0);
  copied_bytes_ = 0;
  link_.turn();
  take_answers();
  // Answers first: an answer that has come in time must not count as late.
  check_patience();
  check_life();
  miss_deadlines();
  pump();
  maintain_flushes();
  calls_.flush();
  check_life();
  // Counts the changes, not the turns.
  const bool degraded = state().degraded();
  counters_.times_degraded += degraded && !degraded_ ? 1 : 0;
  degraded_ = degraded;
}

std::uint64_t PluginEngine::next_turn_ns() const {
  const bool copies_wait = !puts_.empty() && copied_bytes_ >= kTurnBytes;
  if (!dones_.empty() || link_.may_receive() || copies_wait) return 0;
  const std::uint64_t now_ns = clock_.now_ns();
  std::uint64_t next =
      std::min({link_.next_ns(), patience_ns(), removals_.next_ns(now_ns), drops_.next_ns(now_ns)});
  // 1,024 operations at most (accepted_operations): a heap of deadlines would not pay.
  for (const auto& [serial, op] : operations_) next = std::min(next, op.command.deadline_ns);
  return next <= now_ns ? 0 : next - now_ns;
}

void PluginEngine::finish(std::uint64_t serial, Status status, const tiers::ChunkFacts& facts,
                          std::vector<bool> there, std::uint64_t dropped) {
  const auto at = operations_.find(serial);
  if (at == operations_.end()) return;
  const Command command = std::move(at->second.command);
  operations_.erase(at);
  calls_.retire(serial);  // without the answer: the piece stays taken
  if (const auto putting = putting_.find(command.key);
      putting != putting_.end() && putting->second == serial)
    putting_.erase(putting);
  count(command, status, facts);
  tiers::Outcome outcome;
  outcome.message = {Message::Kind::kDone, command.operation, false,
                     command.ticket,       std::move(status), facts};
  outcome.message.there = std::move(there);
  outcome.message.dropped = dropped;
  // The plug-in never sees the slot, so the slot is free at the answer.
  outcome.freed_bytes = command.slot.size();
  outcomes_.push_back(std::move(outcome));
}

template <class Which>
void PluginEngine::finish_all(const Which& which, const Status& why) {
  // finish() takes the operation out of the map.
  std::vector<std::uint64_t> found;
  for (auto& [serial, op] : operations_)
    if (which(serial, op)) found.push_back(serial);
  for (const std::uint64_t serial : found) finish(serial, why);
}

// Figures of operations. Calls of the plug-in without a caller, such as removals, count elsewhere.
void PluginEngine::count(const Command& command, const Status& status,
                         const tiers::ChunkFacts& facts) {
  if (status.code() == Code::kDeadlineExceeded) ++counters_.deadlines_missed;
  if (command.operation == Operation::kPut) {
    ++(status.ok() ? counters_.puts : counters_.puts_failed);
    if (status.ok()) counters_.put_bytes += command.slot.size();
  }
  if (command.operation != Operation::kGet) return;
  ++(status.ok()                        ? counters_.gets
     : status.code() == Code::kNotFound ? counters_.gets_missed
                                        : counters_.gets_failed);
  if (status.ok()) counters_.get_bytes += facts.slot_bytes();
}

// Generation 0: a probe found the chunk, and no get has read its record yet.
void PluginEngine::forget(const tiers::ChunkKey& key, std::uint64_t generation) {
  // Another generation was put meanwhile: the caller's report is about an older object.
  const std::optional<Chunk> known = known_.find(key, clock_.now_ns());
  if (known && known->facts.generation != 0 && known->facts.generation != generation) return;
  known_.erase(key);
  removals_.add(key, last_serial_);
}

void PluginEngine::evict(const tiers::ChunkKey& key) {
  known_.erase(key);
  const auto unsent = [&key](std::uint64_t, Op& op) {
    if (op.command.operation != Operation::kPut || op.command.key != key) return false;
    // A sent PUT cannot be called back. Its object is removed behind the answer.
    op.cancelled = true;
    return op.step == Op::Step::kWaiting;
  };
  finish_all(unsent, {Code::kNotFound, "evicted meanwhile"});
  removals_.add(key, last_serial_);
}

void PluginEngine::begin_drop(std::uint64_t serial) {
  const Command& command = operations_.at(serial).command;
  const bool all = command.operation == Operation::kClear;
  const protocol::NamespaceId id = command.key.namespace_id;
  // At once, and not at the answer to CLEAR: from here on no probe may find a chunk.
  all ? known_.erase_all() : known_.erase_namespace(id);
  drops_.begin({serial, all ? std::nullopt : std::optional(id)});
  const auto unsent = [&](std::uint64_t, Op& op) {
    const Operation operation = op.command.operation;
    const bool probe = operation == Operation::kProbe;
    if (!probe && operation != Operation::kPut && operation != Operation::kGet) return false;
    if (!all && (probe ? op.command.keys.front() : op.command.key).namespace_id != id) return false;
    // A get that has begun fails even if the bytes come: the caller of the drop must not see the
    // chunk in a slot afterwards.
    op.cancelled = true;
    return !probe && op.step == Op::Step::kWaiting;
  };
  finish_all(unsent, {Code::kNotFound, "dropped meanwhile"});
}

void PluginEngine::pump() {
  if (!link_.ready()) return;
  const std::uint64_t now_ns = clock_.now_ns();
  // Drops and removals first: a put behind them must find the key free.
  drops_.pump(calls_, now_ns);
  removals_.pump(calls_, now_ns);
  pump_all(gets_, &PluginEngine::start_get);
  pump_all(puts_, &PluginEngine::start_put);
}

void PluginEngine::pump_all(Serials& waiting, bool (PluginEngine::*begin)(std::uint64_t, Op&)) {
  // All that can begin now begins. An operation that waits for its key holds up no other key.
  Serials left;
  for (const std::uint64_t serial : waiting) {
    const auto at = operations_.find(serial);
    if (at != operations_.end() && !(this->*begin)(serial, at->second)) left.push_back(serial);
  }
  waiting = std::move(left);
}

bool PluginEngine::start_get(std::uint64_t serial, Op& op) {
  const tiers::ChunkKey& key = op.command.key;
  if (removals_.contains(key) || known_.hidden(key.namespace_id))
    return finish(serial, {Code::kNotFound, "the chunk is being removed"}), true;
  const std::optional<Chunk> known = known_.find(key, clock_.now_ns());
  if (known && known->facts.slot_bytes() > op.command.slot.size())
    return finish(serial, {Code::kInvalidArgument, "the slot is smaller than the chunk"}), true;
  // The object changes now: the bytes read could be of two objects.
  if (calls_.writes(key)) return false;
  if (calls_.begin_move(Kind::kGet, serial, key, kRecordBytes + op.command.slot.size()).empty())
    return false;
  op.step = Op::Step::kMoving;
  return true;
}

bool PluginEngine::start_put(std::uint64_t serial, Op& op) {
  const tiers::ChunkKey& key = op.command.key;
  const auto putting = putting_.find(key);
  if ((putting != putting_.end() && putting->second != serial) || calls_.writes(key) ||
      removals_.contains(key) || drops_.covers(key.namespace_id))
    return false;
  const std::optional<Chunk> known = known_.find(key, clock_.now_ns());
  // The same bytes are there already: no second copy over the network.
  if (known && same_bytes(known->facts, op.command.facts)) {
    ++counters_.puts_present;
    return finish(serial, {}), true;
  }
  return write(serial, op);
}

// Copies the chunk into the region and begins the PUT. False: no room now.
bool PluginEngine::write(std::uint64_t serial, Op& op) {
  if (copied_bytes_ >= kTurnBytes) return false;
  const Command& command = op.command;
  const std::span<std::byte> object =
      calls_.begin_move(Kind::kPut, serial, command.key, kRecordBytes + command.slot.size());
  if (object.empty()) return false;
  // The plug-in never sees the arena: the one copy between slot and region is the price for a slot
  // that no late write of the plug-in, or of its network card, can reach.
  encode_record({command.key, command.facts}, object.first(kRecordBytes));
  std::ranges::copy(command.slot, object.subspan(kRecordBytes).begin());
  copied_bytes_ += object.size();
  counters_.written_bytes += object.size();
  putting_[command.key] = serial;
  op.step = Op::Step::kMoving;
  return true;
}

void PluginEngine::miss_deadlines() {
  const std::uint64_t now_ns = clock_.now_ns();
  // With or without an answer: no request of an engine waits for a stopped service.
  finish_all([now_ns](std::uint64_t, const Op& op) { return op.command.deadline_ns <= now_ns; },
             {Code::kDeadlineExceeded, "the plug-in did not answer in time"});
}

// A flush ends after all earlier puts, removals and drops.
void PluginEngine::maintain_flushes() {
  const auto first_put = std::ranges::find_if(
      operations_, [](const auto& one) { return one.second.command.operation == Operation::kPut; });
  const std::uint64_t before = first_put == operations_.end() ? UINT64_MAX : first_put->first;
  const auto done = [&](std::uint64_t serial, const Op& op) {
    return op.command.operation == Operation::kFlush && serial < before &&
           !removals_.any_before(serial) && !drops_.any_before(serial);
  };
  finish_all(done, {});
}

std::uint64_t PluginEngine::patience_ns() const {
  if (calls_.empty()) return UINT64_MAX;
  return std::max(calls_.oldest_ns(), last_answer_ns_) + options_.patience_ms * 1'000'000;
}

void PluginEngine::check_patience() {
  // Received answers count, also before they are handled.
  if (dones_.empty() && !link_.may_receive() && clock_.now_ns() >= patience_ns())
    return link_.end_life({Code::kUnavailable, "the plug-in answered no call for " +
                                                   std::to_string(options_.patience_ms) +
                                                   " ms (backend.plugin_patience)"});
  // A plug-in that keeps so many pieces leaves too few for new calls. A new life has a whole
  // region.
  if (calls_.retired_bytes() > options_.region_bytes / 2)
    link_.end_life({Code::kUnavailable, "the plug-in kept " + base::mib(calls_.retired_bytes()) +
                                            " of its region beyond the deadlines"});
}

// A new life has new memory and has heard of no call.
void PluginEngine::check_life() {
  if (std::exchange(life_, link_.life()) == link_.life()) return;
  dones_.clear();
  calls_.forget_all();
  removals_.life_ended();
  drops_.life_ended();
  // The next plug-in may talk to another service: its STATE alone counts.
  state_ = {};
  const auto lost = [](std::uint64_t, const Op& op) {
    return op.command.operation == Operation::kPut || op.command.operation == Operation::kGet ||
           op.command.operation == Operation::kProbe;
  };
  finish_all(lost, {Code::kUnavailable, link_.why().text()});
}

// Each caller gets an answer, also at the end of larderd.
void PluginEngine::abandon(const Status& why) {
  while (!operations_.empty()) finish(operations_.begin()->first, why);
}

bool PluginEngine::idle() const {
  // Without a plug-in the removals wait for the next one, and an idle tier may sleep.
  return operations_.empty() && (removals_.size() == 0 || !link_.ready());
}

void PluginEngine::take_outcomes(std::vector<tiers::Outcome>& out) {
  out.insert(out.end(), std::make_move_iterator(outcomes_.begin()),
             std::make_move_iterator(outcomes_.end()));
  outcomes_.clear();
}

// Drops and flushes are taken always, and wait for a plug-in.
bool PluginEngine::takes(Operation operation) const {
  switch (operation) {
    case Operation::kPut: return link_.ready() && state_.takes_puts;
    case Operation::kGet:
    case Operation::kProbe: return link_.ready() && state_.takes_gets;
    default: return true;
  }
}

tiers::TierState PluginEngine::state() const {
  tiers::TierState state;
  state.mode = link_.plugin();
  state.takes_puts = takes(Operation::kPut);
  state.takes_gets = takes(Operation::kGet);
  state.reason = link_.ready() ? state_.reason : link_.why().text();
  if (state.degraded() && state.reason.empty()) state.reason = "the plug-in gave no reason";
  state.servers = state_.servers;
  state.servers_reachable = state_.reachable;
  return state;
}

tiers::TierFront::View PluginEngine::view() const {
  tiers::TierFront::View view{state(), counters_};
  view.counters.chunks = known_.chunks();
  view.counters.used_bytes = known_.slot_bytes();
  view.drops = drops_.size();
  view.evictions = removals_.size();
  return view;
}

}  // namespace larder::plugin
