#include "tests/sim/sim_backend.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace larder::sim {

using tiers::Message;
using tiers::Operation;
using tiers::Ticket;

namespace {

constexpr std::size_t kAccepted = 6;  // a small bound, so larderd meets it

Status is_away() {
  return {Code::kUnavailable, "no connection to the server"};
}

}  // namespace

SimBackend::SimBackend(Machine& machine, Model& model, std::shared_ptr<tiers::Residents> residents)
    : machine_(machine),
      model_(model),
      residents_(std::move(residents)),
      life_(machine.server->life) {}

Status SimBackend::enter(Op op, std::uint64_t deadline_ns) {
  if (closed_) return {Code::kUnavailable, "closed"};
  if (ops_.size() >= kAccepted) return {Code::kResourceExhausted, "too much on its way"};
  const std::uint64_t now = machine_.clock.now_ns(), slow_ms = machine_.server->slow ? 2000 : 20;
  op.due_ns = now + 1'000'000 * machine_.below(machine_.patient ? 5 : slow_ms);
  op.deadline_ns = machine_.patient
                       ? deadline_ns
                       : std::min(deadline_ns, now + 1'000'000 * (1 + machine_.below(400)));
  ops_.push_back(std::move(op));
  return {};
}

Status SimBackend::put(Ticket ticket, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts,
                       std::span<const std::byte> slot, std::uint64_t deadline_ns) {
  if (!state().takes_puts) return is_away();
  Op op{Operation::kPut, ticket, number_of(key)};
  must(op.number < kNumbers, "a chunk goes to the backend without a store");
  model_.goes_down(op.number, facts.generation);
  op.facts = facts;
  op.source = slot;
  return enter(std::move(op), deadline_ns);
}

Status SimBackend::get(Ticket ticket, const tiers::ChunkKey& key, std::span<std::byte> slot,
                       std::uint64_t deadline_ns) {
  if (!state().takes_gets) return is_away();
  Op op{Operation::kGet, ticket, number_of(key)};
  op.target = slot;
  return enter(std::move(op), deadline_ns);
}

Status SimBackend::probe(Ticket ticket, std::span<const tiers::ChunkKey> keys,
                         std::uint64_t deadline_ns) {
  must(!keys.empty() && keys.size() <= tiers::kMaxProbeKeys,
       "a probe for no chunk, or for too many");
  if (!state().takes_gets) return is_away();
  Op op{Operation::kProbe, ticket};
  op.keys.assign(keys.begin(), keys.end());
  return enter(std::move(op), deadline_ns);
}

Status SimBackend::drop_namespace(Ticket ticket, const protocol::NamespaceId& id,
                                  std::uint64_t deadline_ns) {
  must(space_of(id) < kSpaces, "a namespace is dropped that there is not");
  return drop(ticket, space_of(id), deadline_ns);
}

Status SimBackend::clear(Ticket ticket, std::uint64_t deadline_ns) {
  return drop(ticket, kSpaces, deadline_ns);
}

// The chunks are hidden from here on, even while the server is away.
Status SimBackend::drop(Ticket ticket, std::uint64_t space, std::uint64_t deadline_ns) {
  if (const Status taken = enter({Operation::kDrop, ticket, space}, deadline_ns); !taken.ok())
    return taken;
  if (space == kSpaces) ops_.back().operation = Operation::kClear;
  ops_.back().due_ns = UINT64_MAX;  // tend_drops() answers it
  drops_.push_back({space, {}});
  for (std::uint64_t one = 0; one < kSpaces; ++one)
    drops_.back().floors[one] = model_.newest_dropped(one);
  const auto meant = [space](std::uint64_t number) {
    return space == kSpaces || space_of(number) == space;
  };
  for (Op& op : ops_)
    op.cancelled =
        op.cancelled ||
        ((op.operation == Operation::kPut || op.operation == Operation::kGet) && meant(op.number));
  for (std::uint64_t number = 0; number < kNumbers; ++number)
    if (exists(number) && meant(number)) forget_number(number);
  return {};
}

Status SimBackend::flush(Ticket ticket, std::uint64_t deadline_ns) {
  return enter({Operation::kFlush, ticket}, deadline_ns);
}

std::optional<tiers::ChunkFacts> SimBackend::probe(const tiers::ChunkKey& key) const {
  const auto found = known_.find(number_of(key));
  if (found == known_.end() || hidden(space_of(found->first))) return std::nullopt;
  return found->second;
}

void SimBackend::forget(const tiers::ChunkKey& key, std::uint64_t generation) {
  const std::uint64_t number = number_of(key);
  if (const auto found = known_.find(number);
      found != known_.end() && found->second.generation == generation)
    forget_number(number);
  const auto there = machine_.server->chunks.find(number);
  if (there != machine_.server->chunks.end() && there->second.facts.generation == generation)
    machine_.server->chunks.erase(there);
}

Status SimBackend::evict(const tiers::ChunkKey& key) {
  const std::uint64_t number = number_of(key);
  for (Op& op : ops_)
    op.cancelled = op.cancelled ||
                   (op.operation != Operation::kProbe && op.number == number && exists(number));
  forget_number(number);
  machine_.server->chunks.erase(number);
  return away_ ? is_away() : Status();
}

bool SimBackend::hidden(std::uint64_t space) const {
  return std::ranges::any_of(
      drops_, [space](const Drop& drop) { return drop.space == space || drop.space == kSpaces; });
}

void SimBackend::know(std::uint64_t number, const tiers::ChunkFacts& facts) {
  known_[number] = facts;
  residents_->added(key_of(number));
}

void SimBackend::forget_number(std::uint64_t number) {
  known_.erase(number);
  residents_->removed(key_of(number));
}

tiers::TierState SimBackend::state() const {
  return {!away_, !away_, away_ ? "no connection to the server" : "", "simulated"};
}

bool SimBackend::reads_memory() const {
  return std::ranges::any_of(ops_, [](const Op& op) { return op.operation == Operation::kPut; });
}

void SimBackend::answer(const Op& op, Status status, const tiers::ChunkFacts& facts,
                        std::vector<bool> there) {
  Message message{Message::Kind::kDone, op.operation, false, op.ticket, std::move(status), facts};
  message.there = std::move(there);
  messages_.push_back(std::move(message));
}

// A late operation, or one with the server away, has failed, and may have been carried out.
void SimBackend::turn() {
  SimServer& server = *machine_.server;
  counters_.times_degraded += server.away && !away_;
  away_ = server.away;
  if (!away_ && std::exchange(life_, server.life) != server.life) {
    known_.clear();
    residents_->removed_all();
  }
  const std::uint64_t now = machine_.clock.now_ns();
  for (auto next = ops_.begin(); next != ops_.end();) {
    const Op op = *next;
    const bool late = op.deadline_ns <= now;
    const bool waits =
        op.operation == Operation::kFlush && std::any_of(ops_.begin(), next, [](const Op& before) {
          return before.operation == Operation::kPut;
        });
    if (!late && !away_ && (op.due_ns > now || waits)) {
      ++next;
      continue;
    }
    next = ops_.erase(next);
    const bool drop = op.operation == Operation::kDrop || op.operation == Operation::kClear;
    if (late || away_) {
      if (op.operation == Operation::kPut && !away_ && machine_.one_in(3)) store(op);
      answer(op, late ? Status(Code::kDeadlineExceeded, "the server did not answer in time")
                      : is_away());
    } else if (!drop) {
      carry_out(op);
    }
  }
  tend_drops();
}

void SimBackend::carry_out(const Op& op) {
  if (op.operation == Operation::kFlush) return answer(op, {});
  if (op.operation == Operation::kProbe) return look_at(op);
  if (op.cancelled || hidden(space_of(op.number)))
    return answer(op, {Code::kNotFound, "dropped meanwhile"});
  if (op.operation == Operation::kGet) return load(op);
  const bool failed = fails();
  if (!failed || machine_.one_in(2)) store(op);  // perhaps only the answer was lost
  if (failed) return answer(op, {Code::kUnavailable, "connection lost"});
  know(op.number, machine_.server->chunks.at(op.number).facts);
  ++went_down;
  answer(op, {});
}

// A chunk with the same bytes stays unchanged.
void SimBackend::store(const Op& op) {
  if (op.cancelled || hidden(space_of(op.number))) return;
  const auto there = machine_.server->chunks.find(op.number);
  if (there != machine_.server->chunks.end() && there->second.facts.root == op.facts.root) return;
  tiers::ChunkFacts content = op.facts;
  content.generation = model_.content_of(op.number, op.facts.generation);
  must(!machine_.arena_damage.empty() || machine_.disk_damaged || machine_.index_damaged ||
           right_bytes(op.source, op.number, content),
       "WRONG BYTES go to the backend: chunk " + std::to_string(op.number));
  machine_.server->chunks[op.number] = {op.facts, {op.source.begin(), op.source.end()}};
}

void SimBackend::load(const Op& op) {
  const auto there = machine_.server->chunks.find(op.number);
  if (there == machine_.server->chunks.end()) {
    forget_number(op.number);
    return answer(op, {Code::kNotFound, ""});
  }
  const SimServer::Chunk& chunk = there->second;
  if (op.target.size() < chunk.bytes.size())
    return answer(op, {Code::kInvalidArgument, "the slot is too small"});
  const bool failed = fails();
  std::copy_n(chunk.bytes.begin(), failed ? machine_.below(chunk.bytes.size()) : chunk.bytes.size(),
              op.target.begin());
  if (failed) return answer(op, {Code::kUnavailable, "connection lost"});
  must(model_.knows(op.number, chunk.facts.generation),
       "a chunk came from the backend without a store");
  know(op.number, chunk.facts);
  const std::byte* const arena = machine_.arena.data();
  if (op.target.data() >= arena && op.target.data() < arena + machine_.arena.size()) {
    up_.add(op.ticket, {op.number, static_cast<std::uint64_t>(op.target.data() - arena),
                        chunk.facts.generation});
    ++came_up;
  }
  answer(op, {}, chunk.facts);
}

void SimBackend::look_at(const Op& op) {
  if (fails()) return answer(op, {Code::kUnavailable, "connection lost"});
  std::vector<bool> there;
  for (const tiers::ChunkKey& key : op.keys) {
    const auto found = machine_.server->chunks.find(number_of(key));
    there.push_back(found != machine_.server->chunks.end() && !hidden(space_of(found->first)));
    if (there.back()) know(found->first, found->second.facts);
  }
  ++probed;
  answer(op, {}, {}, std::move(there));
}

// With the server away the caller gets a failure; the drop is done later all the same.
void SimBackend::tend_drops() {
  if (drops_.empty() || away_ || (!machine_.patient && !machine_.one_in(5))) return;
  const Drop drop = drops_.front();
  const std::uint64_t space = drop.space;
  drops_.pop_front();
  for (std::uint64_t one = 0; one < kSpaces; ++one)
    if (space == one || space == kSpaces) model_.backend_has_dropped(one, drop.floors[one]);
  std::erase_if(machine_.server->chunks, [space](const auto& chunk) {
    return space == kSpaces || space_of(chunk.first) == space;
  });
  const auto asked = std::ranges::find_if(ops_, [space](const Op& op) {
    return (op.operation == Operation::kDrop || op.operation == Operation::kClear) &&
           op.number == space;
  });
  if (asked == ops_.end()) return;
  answer(*asked, {});
  ops_.erase(asked);
}

void SimBackend::wait(int timeout_ms) {
  for (int i = 0; i < timeout_ms && messages_.empty(); ++i) {
    machine_.clock.advance_us(1000);
    turn();
  }
}

bool SimBackend::close(std::uint64_t) {
  for (const Op& op : std::exchange(ops_, {})) answer(op, {Code::kUnavailable, "closed"});
  closed_ = true;
  return true;
}

void SimBackend::take_messages(std::vector<Message>& out) {
  out.insert(out.end(), std::make_move_iterator(messages_.begin()),
             std::make_move_iterator(messages_.end()));
  messages_.clear();
}

}  // namespace larder::sim
