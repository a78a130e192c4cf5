// The answers of the plug-in: the second half of plugin_engine.cc.
#include <algorithm>
#include <array>
#include <utility>

#include "sidecar/tiers/plugin/plugin_engine.h"

namespace larder::plugin {
namespace {

// The status of an operation whose call failed.
Status status_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk: return {};
    case Outcome::kNotFound: return {Code::kNotFound, "the service has no such object"};
    case Outcome::kExists:
      return {Code::kUnavailable, "another larderd puts the chunk at the same time"};
    case Outcome::kFull: return {Code::kResourceExhausted, "the service is full"};
    case Outcome::kUnavailable: return {Code::kUnavailable, "the service cannot be reached"};
    case Outcome::kTooLarge:
      return {Code::kResourceExhausted, "the service takes no object of this size"};
    case Outcome::kFailed: break;
  }
  return {Code::kUnavailable, "the plug-in failed"};
}

}  // namespace

void PluginEngine::take_answers() {
  // A turn copies a bounded number of bytes: the deadlines of other operations are looked at
  // between turns.
  for (std::size_t packets = 0; copied_bytes_ < kTurnBytes && packets < kTurnPackets;) {
    if (!dones_.empty()) {
      const Done done = dones_.front();
      dones_.pop_front();
      on_done(done);
    } else if (const std::optional<Packet> packet = link_.receive()) {
      ++packets;  // a flood of STATE copies no byte
      take(*packet);
    } else {
      return;
    }
  }
}

void PluginEngine::take(const Packet& packet) {
  // Answers alone are a sign of life for check_patience(): any process can send STATE.
  if (!std::holds_alternative<State>(packet)) last_answer_ns_ = clock_.now_ns();
  if (const auto* dones = std::get_if<std::vector<Done>>(&packet))
    dones_.insert(dones_.end(), dones->begin(), dones->end());
  else if (const auto* found = std::get_if<Found>(&packet))
    on_found(*found);
  else if (const auto* state = std::get_if<State>(&packet))
    state_ = *state;
}

void PluginEngine::fault(const std::string& what) {
  // A breach of the contract ends the connection: after one wrong ticket no other answer of this
  // life is believed. check_life() then ends all open operations, as misses.
  dones_.clear();
  link_.end_life({Code::kUnavailable, "the plug-in " + what});
}

void PluginEngine::on_done(const Done& done) {
  const Call* const found = calls_.find(done.ticket);
  if (found == nullptr) return fault("answered the unknown ticket " + std::to_string(done.ticket));
  if (found->kind == Kind::kExist) return fault("answered EXIST with DONE");
  // A longer answer would have been written beyond the piece, into the piece of another call.
  if (found->kind == Kind::kGet && done.outcome == Outcome::kOk && done.value > found->room)
    return fault("answered GET with more bytes than its room");
  // The bytes of the piece stay in place: only this thread takes pieces.
  const Call call = calls_.end(done.ticket);
  if (call.kind == Kind::kClear) return on_cleared(done);
  if (call.kind == Kind::kRemove && call.owner == 0)
    removals_.answered(call.key, done.outcome, clock_.now_ns());
  const auto at = operations_.find(call.owner);
  if (at == operations_.end()) return;  // retired
  Op& op = at->second;
  if (op.cancelled) return finish(call.owner, status_of(Outcome::kNotFound));
  switch (op.step) {
    case Op::Step::kWaiting: break;
    case Op::Step::kMoving:
      return call.kind == Kind::kPut ? on_put(call.owner, op, done.outcome)
                                     : on_got(call.owner, op, call, done);
    case Op::Step::kComparing: return on_compared(call.owner, op, call, done);
    case Op::Step::kRemoving: return on_removed(call.owner, op, done.outcome);
  }
}

// The facts of an object that was got; none: the object is not the chunk of its key.
std::optional<tiers::ChunkFacts> PluginEngine::record_of(const Call& call, const Done& done) {
  if (done.outcome != Outcome::kOk || done.value < kRecordBytes) return std::nullopt;
  // A copy: the plug-in could change the record between the check and its use.
  std::array<std::byte, kRecordBytes> record;
  std::ranges::copy(link_.region().at(*call.piece).first(kRecordBytes), record.begin());
  return decode_record(call.key, record, done.value);
}

// An evicted chunk must not become known again.
void PluginEngine::learn(const Chunk& chunk) {
  if (!removals_.contains(chunk.key)) known_.insert(chunk);
}

void PluginEngine::on_got(std::uint64_t serial, Op& op, const Call& call, const Done& done) {
  const tiers::Command& command = op.command;
  const tiers::ChunkKey& key = command.key;
  if (done.outcome == Outcome::kNotFound) {
    // A known chunk that is gone: the service evicted the object.
    counters_.chunks_evicted += known_.erase(key) ? 1 : 0;
    return finish(serial, status_of(Outcome::kNotFound));
  }
  // An unknown chunk may be larger than the slot without a fault: the sizes come from the caller. A
  // known chunk with another size is a foreign object, and is removed below.
  if (done.outcome == Outcome::kTooLarge && !known_.find(key, clock_.now_ns()))
    return finish(serial, {Code::kInvalidArgument, "the slot is smaller than the chunk"});
  if (done.outcome != Outcome::kOk && done.outcome != Outcome::kTooLarge)
    return finish(serial, status_of(done.outcome));
  const std::optional<tiers::ChunkFacts> facts = record_of(call, done);
  if (!facts) {
    ++counters_.records_corrupt;
    // A restarted service may give out the object of another key (Mooncake issue 1336).
    known_.erase(key);
    removals_.add(key, ++last_serial_);
    return finish(serial, {Code::kDataLoss, "the object is not the chunk of its key"});
  }
  // At most the slot: the room was the slot and the record.
  const std::uint64_t bytes = facts->slot_bytes();
  std::ranges::copy(link_.region().at(*call.piece).subspan(kRecordBytes, bytes),
                    command.slot.begin());
  copied_bytes_ += bytes;
  counters_.read_bytes += done.value;
  learn({key, *facts});
  finish(serial, {}, *facts);
}

void PluginEngine::on_put(std::uint64_t serial, Op& op, Outcome outcome) {
  const Chunk chunk{op.command.key, op.command.facts};
  if (outcome == Outcome::kOk) {
    layouts_.insert(chunk.key, chunk.facts.payload_bytes, chunk.facts.piece_bytes);
    learn(chunk);
    return finish(serial, {});
  }
  if (outcome != Outcome::kExists || op.again) return finish(serial, status_of(outcome));
  // The object may be of another larderd, or of another life of the service.
  op.step = Op::Step::kComparing;
  if (calls_.begin_move(Kind::kGet, serial, chunk.key, kRecordBytes + op.command.slot.size())
          .empty())
    finish(serial, {Code::kResourceExhausted, "the region has no room for the comparison"});
}

void PluginEngine::on_compared(std::uint64_t serial, Op& op, const Call& call, const Done& done) {
  const tiers::Command& command = op.command;
  const std::optional<tiers::ChunkFacts> there = record_of(call, done);
  // Two larderds of the pool have computed the same chunk: the first object serves both.
  if (there && same_bytes(*there, command.facts)) {
    ++counters_.puts_present;
    learn({command.key, *there});
    return finish(serial, {});
  }
  // Not compared: the object of another larderd may be right.
  if (done.outcome == Outcome::kUnavailable || done.outcome == Outcome::kFailed)
    return finish(serial, status_of(done.outcome));
  known_.erase(command.key);
  op.step = Op::Step::kRemoving;
  calls_.remove(serial, command.key);
}

void PluginEngine::on_removed(std::uint64_t serial, Op& op, Outcome outcome) {
  if (outcome != Outcome::kOk && outcome != Outcome::kNotFound)
    return finish(serial, status_of(outcome));
  // Once more, and only once: two larderds must not remove each other's objects for ever.
  op.step = Op::Step::kWaiting;
  op.again = true;
  puts_.push_front(serial);
}

void PluginEngine::on_found(const Found& found) {
  const Call* const call = calls_.find(found.ticket);
  if (call == nullptr) return fault("answered the unknown ticket " + std::to_string(found.ticket));
  if (call->kind != Kind::kExist) return fault("answered another call with FOUND");
  if (call->keys != found.there.size()) return fault("answered EXIST for another number of keys");
  const std::uint64_t serial = call->owner;
  calls_.end(found.ticket);
  const auto at = operations_.find(serial);
  if (at == operations_.end()) return;
  const Op& op = at->second;
  if (found.outcome != Outcome::kOk) return finish(serial, status_of(found.outcome));
  std::vector<bool> there(found.there.size());
  const std::uint64_t now_ns = clock_.now_ns();
  for (std::size_t i = 0; i < there.size(); ++i) {
    const tiers::ChunkKey& key = op.command.keys[i];
    // A service evicts by itself. A chunk that a removal or a drop still waits for is not there.
    if (!found.there[i]) known_.erase(key);
    if (!found.there[i] || op.cancelled || removals_.contains(key) ||
        known_.hidden(key.namespace_id))
      continue;
    if (!known_.find(key, now_ns)) {
      const std::optional<tiers::ChunkFacts> facts = layouts_.find(key);
      if (!facts) continue;  // the chunk could not be loaded
      known_.insert({key, *facts});
    }
    there[i] = true;
  }
  finish(serial, {}, {}, std::move(there));
}

void PluginEngine::on_cleared(const Done& done) {
  const Drop drop = drops_.answered(done.outcome, clock_.now_ns());
  if (done.outcome == Outcome::kOk) {
    counters_.chunks_dropped += done.value;
    // Only now: until the last object is gone a get could find a dropped chunk.
    drop.id ? known_.show(*drop.id) : known_.show_all();
  }
  finish(drop.serial, status_of(done.outcome), {}, {},
         done.outcome == Outcome::kOk ? done.value : 0);
}

}  // namespace larder::plugin
