#include "tests/sim/sim_larderd.h"

#include <algorithm>
#include <utility>

namespace larder::sim {

using protocol::SlotState;
using tiers::Message;
using tiers::Operation;

namespace {

constexpr std::uint64_t kSettlingNs = 2'000'000'000;
constexpr std::uint64_t kSlackNs = 40'000'000;  // that the simulation may pass between two turns

}  // namespace

SimLarderd::SimLarderd(Machine& machine, Model& model)
    : machine_(machine), model_(model), disk_(machine.env, machine.clock, options_, catalog_) {}

SimLarderd::~SimLarderd() {
  if (store_) machine_.newest_generation = std::max(machine_.newest_generation, store_->last_generation());
  model_.larderd_ended();
  machine_.env.kill();
}

Status SimLarderd::start(const std::set<SessionNumber>& alive) {
  if (Status status = disk_.start(); !status.ok()) return status;
  earlier_ = machine_.indexes.empty() ? nullptr : machine_.indexes.back();
  for (const auto& older : machine_.indexes)
    if (older != earlier_) older->supersede();
  Result<store::EarlierIndex> earlier = Status(Code::kNotFound, "");
  if (earlier_) earlier = store::EarlierIndex::open(earlier_->memory.data(), earlier_->memory.size());
  must(!earlier_ || earlier.ok(), "the index that was left cannot be opened: " + earlier.status().text());

  store::IndexShape shape{};
  shape.entry_count = 2 * Machine::kArenaBytes / 8192;
  shape.bucket_count = store::IndexShape::buckets_for(shape.entry_count);
  shape.arena_bytes = Machine::kArenaBytes;
  shape.first_generation = std::max(machine_.newest_generation, earlier.ok() ? earlier->last_generation() : 0) + 1;
  shape.epoch = shape.first_generation;
  shape.tier = 1;  // of every life the same one
  index_ = std::make_shared<Index>(shape);
  store_ = std::make_unique<store::Store>(shape, index_->memory.data(), machine_.arena.data(), stats_);
  index_->reader = *protocol::IndexReader::open(index_->memory.data(), index_->memory.size());
  store_->set_touched_bytes(shape.arena_bytes);
  std::vector<store::NamespaceSpec> names;
  for (std::uint64_t space = 0; space < kSpaces; ++space) names.push_back(spec_of(space));
  if (earlier.ok()) {
    const std::vector<SessionNumber> sessions(alive.begin(), alive.end());
    store_->restore(*earlier, names, sessions);
    awaited_ = alive;
    settle_by_ns_ = machine_.clock.now_ns() + kSettlingNs;
  }
  for (std::uint64_t space = 0; space < kSpaces; ++space) {
    std::string difference;
    index_->handles[space] = *store_->open_namespace(names[space], &difference);
  }
  own_ = machine_.next_session++;
  regions_[own_] = std::make_shared<Region>();
  store_->add_session(own_, **regions_[own_]);
  machine_.indexes.push_back(index_);
  tick();
  return {};
}

SessionNumber SimLarderd::attach(std::shared_ptr<Region> region, std::set<SessionNumber>& earlier,
                                 std::span<const protocol::SlotRef> still_written) {
  const SessionNumber number = machine_.next_session++;
  store_->add_session(number, **region);
  regions_[number] = std::move(region);
  for (auto next = earlier.begin(); next != earlier.end();) {
    const SessionNumber one = *next++;
    if (regions_.contains(one)) end_session(one);
    awaited_.erase(one);
    store_->succeed(number, one, still_written, true);
    if (store_->use_of(one).grants != 0) continue;
    store_->release_quarantine(one);
    earlier.erase(one);
  }
  return number;
}

// Its region may be gone at once.
void SimLarderd::end_session(SessionNumber session) {
  store_->end_session(session);
  regions_.erase(session);
}

void SimLarderd::process_ended(const std::set<SessionNumber>& sessions) {
  for (const SessionNumber session : sessions) {
    if (regions_.contains(session)) end_session(session);
    awaited_.erase(session);
    store_->release_quarantine(session);
  }
}

protocol::Key SimLarderd::key_in_index(std::uint64_t number) const {
  const tiers::ChunkKey key = key_of(number);
  return {key.hash, index_->handles[space_of(number)], key.shard, key.group};
}

protocol::Grant SimLarderd::reserve(SessionNumber session, std::uint64_t number) {
  const protocol::Key key = key_in_index(number);
  protocol::Grant grant{};
  store_->reserve(session, key, std::span(&key.hash, 1), std::span(&grant, 1));
  must(grant.status != 0 || grant.offset_bytes + slot_bytes_of(number) <= Machine::kArenaBytes, "a slot outside the arena");
  return grant;
}

// Said to be stored from here on, if it is the session's.
void SimLarderd::commit(SessionNumber session, std::uint64_t number, const protocol::CommitRecord& record) {
  model_.committed(number, record.generation, record.generation);
  store_->commit(session, record);
  to_write_.push_back({number, record.slot, record.generation});
}

void SimLarderd::drop(std::uint64_t space) {
  const std::uint64_t newest = store_->last_generation();
  store::Drop drop{index_->handles[space]};
  while (!drop.done) store_->drop(drop);
  model_.dropped(space, newest);
  disk::Command command;
  command.operation = Operation::kDrop;
  command.key.namespace_id = spec_of(space).id;
  catalog_.hide(command.key.namespace_id);
  accept(command, {Operation::kDrop, space, 0, newest});
}

void SimLarderd::fetch(std::uint64_t number) {
  if (index_->reader.find(key_in_index(number)) || !catalog_.find(key_of(number)) || !disk_.state().takes_gets) return;
  const protocol::Grant grant = reserve(own_, number);
  if (grant.status != 0) return;
  disk::Command command;
  command.operation = Operation::kGet;
  command.key = key_of(number);
  command.slot = slot_memory(grant.offset_bytes, number);
  accept(command, {Operation::kGet, number, grant.slot, grant.generation});
}

void SimLarderd::bad(const protocol::SlotRef& slot) {
  store_->report_bad(slot);
  const auto up = content_on_disk_.find(slot.generation);
  if (up == content_on_disk_.end()) return;
  for (std::uint64_t number = 0; number < kNumbers; ++number) {
    const std::optional<disk::Located> located = catalog_.find(key_of(number));
    if (!exists(number) || !located || located->record.facts.generation != up->second) continue;
    disk::Command command;
    command.kind = disk::Command::Kind::kForget;
    command.key = key_of(number);
    command.facts.generation = up->second;
    disk_.accept(command);
  }
}

std::uint32_t SimLarderd::hold(std::uint32_t slot, std::uint64_t generation) {
  const auto place = static_cast<std::uint32_t>(std::ranges::find(places_, false) - places_.begin());
  must(place < places_.size(), "larderd holds too much");
  places_[place] = true;
  regions_[own_]->hold(place, slot, generation);
  return place;
}

void SimLarderd::write_down() {
  if (to_write_.empty() || ops_.size() > 12 || !disk_.state().takes_puts) return;
  const Waiting wanted = to_write_.front();
  to_write_.pop_front();
  const std::uint32_t place = hold(wanted.slot, wanted.generation);
  const std::optional<protocol::EntryView> view = index_->reader.read(wanted.slot);
  if (!view || view->generation != wanted.generation) {  // gone again, or never let in
    regions_[own_]->let_go(place);
    places_[place] = false;
    return;
  }
  disk::Command command;
  command.operation = Operation::kPut;
  command.key = key_of(wanted.number);
  command.facts = {view->generation, view->payload_bytes, view->piece_bytes, view->root};
  command.slot = slot_memory(view->offset_bytes, wanted.number);
  accept(command, {Operation::kPut, wanted.number, wanted.slot, wanted.generation, place});
}

void SimLarderd::flush() {
  disk::Command command;
  command.operation = Operation::kFlush;
  accept(command, {Operation::kFlush});
}

void SimLarderd::accept(disk::Command command, const Op& op) {
  command.ticket = ++ticket_;
  command.deadline_ns = machine_.clock.now_ns() + 1'000'000 * (machine_.patient ? 60'000 : 5 + machine_.below(400));
  Op& kept = ops_[command.ticket] = op;
  kept.deadline_ns = command.deadline_ns;
  disk_.accept(command);
}

void SimLarderd::turn() {
  disk_.turn(0);
  std::vector<disk::Outcome> outcomes;
  disk_.take_outcomes(outcomes);
  for (const disk::Outcome& one : outcomes) outcome(one.message);
  must(machine_.env.broken_rule().empty(), machine_.env.broken_rule());
  for (const auto& [ticket, op] : ops_)
    must(op.done || op.deadline_ns + kSlackNs > machine_.clock.now_ns(),
         "an operation of the disk was not answered by its deadline");
}

void SimLarderd::outcome(const Message& message) {
  const auto found = ops_.find(message.ticket);
  must(found != ops_.end(), "the disk answered twice");
  const bool released = message.kind == Message::Kind::kReleased;
  must(released == found->second.done, "the disk answered twice, or let go of a slot that it had not");
  const Op op = found->second;
  if (op.operation == Operation::kDrop && message.status.ok()) model_.drop_is_safe(op.number, op.generation);
  if (op.operation == Operation::kPut && !released && message.status.ok()) ++went_down;
  flushes += op.operation == Operation::kFlush && message.status.ok();
  if (message.slot_busy) {
    found->second.done = true;
    return;
  }
  ops_.erase(found);
  if (op.operation == Operation::kPut) put_ended(op);
  if (op.operation == Operation::kGet) get_ended(op, message);
}

void SimLarderd::put_ended(const Op& op) {
  regions_[own_]->let_go(op.place);
  places_[op.place] = false;
}

void SimLarderd::get_ended(const Op& op, const Message& message) {
  const bool good = message.kind == Message::Kind::kDone && message.status.ok();
  if (!good) return store_->disown(own_, {op.slot, 0, op.generation});
  model_.came_up(op.number, message.facts.generation);
  must(message.facts.slot_bytes() == slot_bytes_of(op.number), "a chunk of another size came up");
  model_.committed(op.number, op.generation, message.facts.generation);
  content_on_disk_[op.generation] = message.facts.generation;
  const std::uint32_t place = hold(op.slot, op.generation);
  store_->commit(own_, {op.slot, 0, op.generation, message.facts.root});
  kept_.push_back({place, op.slot, op.generation});
  ++came_up;
  if (kept_.size() > 8) let_go_one();
}

void SimLarderd::let_go_one() {
  if (kept_.empty()) return;
  regions_[own_]->let_go(kept_.front().place);
  places_[kept_.front().place] = false;
  kept_.pop_front();
}

void SimLarderd::tick() {
  if (store_->settling() && (awaited_.empty() || machine_.clock.now_ns() > settle_by_ns_)) {
    awaited_.clear();
    store_->settled();
  }
  while (store_->verify_next()) {
  }
  store_->sweep();
}

bool SimLarderd::writes_from_memory() const {
  return std::ranges::any_of(ops_, [](const auto& one) { return one.second.operation == Operation::kPut; });
}

bool SimLarderd::close() {
  disk_.begin_close();
  for (int i = 0; i < 4000 && !disk_.closed(); ++i) {
    machine_.clock.advance_us(1000);
    turn();
  }
  return disk_.closed();
}

}  // namespace larder::sim
