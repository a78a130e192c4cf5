#include "tests/sim/watched_tier.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace larder::sim {

using tiers::Message;
using tiers::Operation;
using tiers::Ticket;

namespace {

// turns after a put, until a forget() during the put has its effect
constexpr std::uint64_t kSettledTurns = 3;
// Small bounds, so larderd meets them.
constexpr std::uint32_t kAcceptedOperations = 6;
constexpr std::uint64_t kAcceptedBytes = 96 << 10;

}  // namespace

Result<std::unique_ptr<WatchedTier>> WatchedTier::open(
    Machine& machine, Model& model, std::shared_ptr<tiers::Residents> residents) {
  disk::DiskOptions options = volume_options();
  options.accepted_operations = kAcceptedOperations;
  options.accepted_bytes = kAcceptedBytes;
  options.residents = std::move(residents);
  Result<std::unique_ptr<disk::SteppedTier>> tier =
      disk::open_stepped_disk_tier(machine.env, machine.clock, options);
  if (!tier.ok()) return tier.status();
  return std::make_unique<WatchedTier>(machine, model, std::move(*tier));
}

std::uint64_t WatchedTier::soon(std::uint64_t deadline_ns) {
  if (machine_.patient) return deadline_ns;
  const std::uint64_t most_ms = machine_.one_in(3) ? 400 : 25;  // a request takes 30 at times
  return std::min(deadline_ns, machine_.clock.now_ns() + 1'000'000 * (1 + machine_.below(most_ms)));
}

Status WatchedTier::enter(Ticket ticket, const Op& op, const Status& taken) {
  if (taken.ok()) must(ops_.emplace(ticket, op).second, "a ticket was used twice");
  return taken;
}

Status WatchedTier::put(Ticket ticket, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts,
                        std::span<const std::byte> slot, std::uint64_t deadline_ns) {
  const Op op{Operation::kPut, number_of(key), soon(deadline_ns), {}, {}};
  must(op.number < kNumbers, "a chunk goes to the disk without a store");
  model_.goes_down(op.number, facts.generation);
  return enter(ticket, op, tier_->put(ticket, key, facts, slot, op.deadline_ns));
}

Status WatchedTier::get(Ticket ticket, const tiers::ChunkKey& key, std::span<std::byte> slot,
                        std::uint64_t deadline_ns) {
  Op op{Operation::kGet, number_of(key), soon(deadline_ns), {}, {}};
  const std::byte* const arena = machine_.arena.data();
  if (slot.data() >= arena && slot.data() < arena + machine_.arena.size())
    op.offset = static_cast<std::uint64_t>(slot.data() - arena);
  return enter(ticket, op, tier_->get(ticket, key, slot, op.deadline_ns));
}

Status WatchedTier::drop_namespace(Ticket ticket, const protocol::NamespaceId& id,
                                   std::uint64_t deadline_ns) {
  Op op{Operation::kDrop, space_of(id), soon(deadline_ns), {}, {}};
  must(op.number < kSpaces, "a namespace is dropped that there is not");
  op.floors[op.number] = model_.newest_dropped(op.number);
  const Status taken = tier_->drop_namespace(ticket, id, op.deadline_ns);
  if (taken.ok()) took_drop(op.number);
  return enter(ticket, op, taken);
}

Status WatchedTier::clear(Ticket ticket, std::uint64_t deadline_ns) {
  Op op{Operation::kClear, kSpaces, soon(deadline_ns), {}, {}};
  const Status taken = tier_->clear(ticket, op.deadline_ns);
  for (std::uint64_t space = 0; space < kSpaces; ++space) {
    op.floors[space] = model_.newest_dropped(space);
    if (taken.ok()) took_drop(space);
  }
  return enter(ticket, op, taken);
}

// From now on no request finds the dropped chunks.
void WatchedTier::took_drop(std::uint64_t space) {
  model_.disk_took_drop(space);
  for (std::uint64_t number = 0; number < kNumbers; ++number)
    must(!exists(number) || space_of(number) != space || !tier_->probe(key_of(number)),
         "a chunk of a taken drop is found");
}

Status WatchedTier::flush(Ticket ticket, std::uint64_t deadline_ns) {
  const Op op{Operation::kFlush, 0, soon(deadline_ns), {}, {}};
  return enter(ticket, op, tier_->flush(ticket, op.deadline_ns));
}

void WatchedTier::turn() {
  ++turns_;
  tier_->turn(0);
  see_messages();
  must(machine_.env.broken_rule().empty(), machine_.env.broken_rule());
  for (const auto& [ticket, op] : ops_)
    must(op.done || op.deadline_ns > machine_.clock.now_ns(),
         "an operation of the disk was not answered by its deadline");
}

void WatchedTier::wait(int timeout_ms) {
  for (int i = 0; i < timeout_ms && messages_.empty(); ++i) {
    machine_.clock.advance_us(1000);
    turn();
  }
}

bool WatchedTier::close(std::uint64_t grace_ms) {
  closed_ = tier_->close(grace_ms);
  see_messages();
  must(!*closed_ || ops_.empty(), "the disk tier has ended and left something unanswered");
  return *closed_;
}

void WatchedTier::take_messages(std::vector<Message>& out) {
  out.insert(out.end(), std::make_move_iterator(messages_.begin()),
             std::make_move_iterator(messages_.end()));
  messages_.clear();
}

void WatchedTier::see_messages() {
  const std::size_t before = messages_.size();
  tier_->take_messages(messages_);
  for (std::size_t i = before; i < messages_.size(); ++i) look_at(messages_[i]);
}

void WatchedTier::look_at(const Message& message) {
  const auto found = ops_.find(message.ticket);
  must(found != ops_.end(), "the disk answered without a request, or twice");
  Op& op = found->second;
  const bool released = message.kind == Message::Kind::kReleased;
  must(released == op.done, "the disk answered twice, or let go of a slot that it had not");
  must(message.operation == op.operation, "the disk answered another operation");
  if (!released && message.status.ok()) ended_well(op, message);
  if (message.slot_busy) {
    op.done = true;
    return;
  }
  if (op.operation == Operation::kPut) put_ended_[op.number] = turns_;
  ops_.erase(found);
}

void WatchedTier::ended_well(const Op& op, const Message& message) {
  switch (op.operation) {
    case Operation::kPut: ++went_down; return;
    case Operation::kFlush: ++flushes; return;
    case Operation::kProbe: return;
    case Operation::kDrop: return model_.drop_is_safe(op.number, op.floors[op.number]);
    case Operation::kClear:
      for (std::uint64_t space = 0; space < kSpaces; ++space)
        model_.drop_is_safe(space, op.floors[space]);
      return;
    case Operation::kGet: break;
  }
  must(op.number < kNumbers && message.facts.slot_bytes() == slot_bytes_of(op.number),
       "a chunk of another size came up");
  model_.tier_gave(op.number, message.facts.generation);
  if (op.offset) up_.add(message.ticket, {op.number, *op.offset, message.facts.generation});
  came_up += op.offset.has_value();
}

bool WatchedTier::reads_memory() const {
  return std::ranges::any_of(
      ops_, [](const auto& one) { return one.second.operation == Operation::kPut; });
}

bool WatchedTier::on_its_way_down(std::uint64_t number) const {
  const auto ended = put_ended_.find(number);
  return (ended != put_ended_.end() && turns_ < ended->second + kSettledTurns) ||
         std::ranges::any_of(ops_, [&](const auto& one) {
           return one.second.operation == Operation::kPut && one.second.number == number;
         });
}

}  // namespace larder::sim
