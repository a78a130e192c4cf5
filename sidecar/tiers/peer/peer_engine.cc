#include "sidecar/tiers/peer/peer_engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sidecar/tiers/peer/wire.h"

namespace larder::peer {

using tiers::Command;
using tiers::Message;
using tiers::Operation;

PeerEngine::PeerEngine(const ClientOptions& options, const base::Clock& clock, Offers& offers)
    : options_(options),
      clock_(clock),
      offers_(offers),
      members_(options, clock, poller_),
      probes_(options, clock, members_, offers) {}

void PeerEngine::accept(Command command) {
  accepted_.push_back(++last_serial_);
  operations_.emplace(last_serial_, Op{std::move(command), false, {}, 0, 0, {}});
}

// Nothing is written to peers: a put is done at once, and a drop forgets the offers alone.
void PeerEngine::begin(std::uint64_t serial) {
  const Command& command = operations_.at(serial).command;
  switch (command.operation) {
    case Operation::kPut:
    case Operation::kFlush: return finish(serial, {});
    case Operation::kDrop:
      offers_.erase_namespace(command.key.namespace_id);
      return finish(serial, {});
    case Operation::kClear: offers_.erase_namespace({}); return finish(serial, {});
    case Operation::kProbe: return begin_probe(serial);
    case Operation::kGet: return begin_get(serial);
  }
}

// Requests leave at the start of the next turn, without a wait. Replies can arrive during this
// send, and the rest of the turn handles them.
void PeerEngine::turn(std::uint64_t timeout_ns) {
  members_.flush();
  // Outcomes wait for the caller, who takes them after this turn.
  poller_.wait(outcomes_.empty() && accepted_.empty() ? timeout_ns : 0);
  members_.turn();
  // After the replies: a reply in the socket counts as an answer of the member, even after a long
  // pause of this thread.
  for (const std::uint64_t serial : std::exchange(accepted_, {}))
    if (operations_.contains(serial)) begin(serial);
  // Probes end before operations do: a get whose probe ends now gets its answer from the probe.
  probes_.end_late(clock_.now_ns());
  miss_deadlines();
  pump_gets();
  probes_.flush();
  const bool degraded = !state().takes_gets;
  counters_.times_degraded += degraded && !degraded_ ? 1 : 0;
  degraded_ = degraded;
}

std::uint64_t PeerEngine::next_turn_ns() const {
  if (!accepted_.empty()) return 0;
  const std::uint64_t now_ns = clock_.now_ns();
  std::uint64_t next = std::min(members_.next_ns(), probes_.next_ns());
  for (const auto& [serial, op] : operations_) next = std::min(next, op.command.deadline_ns);
  return next <= now_ns ? 0 : next - now_ns;
}

void PeerEngine::finish(std::uint64_t serial, Status status, tiers::ChunkFacts facts,
                        std::vector<bool> there) {
  const auto at = operations_.find(serial);
  if (at == operations_.end()) return;
  const Op op = std::move(at->second);
  operations_.erase(at);
  count(op, status, facts);
  const bool read = status.ok();
  // The bytes count until the operation ends, not until the last byte: at the end no other part is
  // on its way into the slot.
  if (op.moving != 0) lanes_.at(op.offer.member).reading_bytes -= op.moving;
  tiers::Outcome outcome;
  outcome.message = {Message::Kind::kDone, op.command.operation, false,
                     op.command.ticket,    std::move(status),    facts};
  outcome.message.there = std::move(there);
  outcome.freed_bytes = op.command.slot.size();
  outcomes_.push_back(std::move(outcome));
  // A read uses its hold up: no later get may ask for a slot that the member may reuse. The member
  // ends the hold with the last part that it sends, and DONE ends the hold of a failed read.
  if (!op.started) return;
  offers_.erase(op.command.key, op.offer.facts.generation);
  if (!read) probes_.done_with(op.offer.member, op.command.key);
}

void PeerEngine::count(const Op& op, const Status& status, const tiers::ChunkFacts& facts) {
  if (status.code() == Code::kDeadlineExceeded) ++counters_.deadlines_missed;
  if (op.command.operation == Operation::kPut)
    ++(status.ok() ? counters_.puts : counters_.puts_failed);
  if (op.command.operation != Operation::kGet) return;
  ++(status.ok()                        ? counters_.gets
     : status.code() == Code::kNotFound ? counters_.gets_missed
                                        : counters_.gets_failed);
  if (status.ok()) counters_.get_bytes += facts.slot_bytes();
}

void PeerEngine::begin_probe(std::uint64_t serial) {
  const Command& command = operations_.at(serial).command;
  const std::vector<tiers::ChunkKey> keys = command.keys;
  probes_.begin(serial, keys, command.deadline_ns,
                [this, serial](const std::vector<bool>& there, const Status& failed) {
                  finish(serial, failed, {}, there);
                });
}

// A chunk that no member offered is asked for first.
void PeerEngine::begin_get(std::uint64_t serial) {
  const Command& command = operations_.at(serial).command;
  const tiers::ChunkKey key = command.key;
  if (queue_get(serial)) return;
  probes_.begin(serial, {&key, 1}, command.deadline_ns,
                [this, serial](const std::vector<bool>& there, const Status& failed) {
                  if (!failed.ok()) return finish(serial, failed);
                  if (!there.front() || !queue_get(serial))
                    finish(serial, {Code::kNotFound, "no peer has the chunk"});
                });
}

// False: no member has offered the chunk.
bool PeerEngine::queue_get(std::uint64_t serial) {
  const std::optional<Offer> offer =
      offers_.find(operations_.at(serial).command.key, clock_.now_ns());
  if (offer) lanes_[offer->member].waiting.push_back(serial);
  return offer.has_value();
}

void PeerEngine::pump_gets() {
  for (auto& [member, lane] : lanes_) pump_lane(lane);
  std::erase_if(lanes_, [](const auto& one) {
    return one.second.waiting.empty() && one.second.reading_bytes == 0;
  });
}

// An offer may have ended or changed since the get came: the newest offer counts.
void PeerEngine::pump_lane(Lane& lane) {
  while (!lane.waiting.empty()) {
    const std::uint64_t serial = lane.waiting.front();
    // Serials of operations that missed their deadline stay in the queue until their turn.
    if (operations_.contains(serial)) {
      const std::optional<Offer> offer =
          offers_.find(operations_.at(serial).command.key, clock_.now_ns());
      // The bound keeps the queue of the member's connection short; a get looks for its offer again
      // when its turn comes. A chunk larger than the bound goes alone.
      if (offer && lane.reading_bytes != 0 &&
          lane.reading_bytes + offer->facts.slot_bytes() > options_.read_bytes_in_flight)
        return;
      if (!offer || !start_get(serial, *offer)) {
        // The next probe asks the members anew. With the stale offer every get of the chunk would
        // fail.
        offers_.erase(operations_.at(serial).command.key);
        finish(serial, {Code::kNotFound, "the peer has the chunk no more"});
      }
    }
    lane.waiting.pop_front();
  }
}

// False: the peer is gone.
bool PeerEngine::start_get(std::uint64_t serial, const Offer& offer) {
  Op& op = operations_.at(serial);
  Member* const member = members_.find(offer.member);
  if (member == nullptr || !member->payloads->ready()) return false;
  op.started = true;
  op.offer = offer;
  const std::uint64_t bytes = offer.facts.slot_bytes();
  // Sizes in offers come from another machine and are not trusted. The namespace's layout gave the
  // slot its size.
  if (bytes > op.command.slot.size()) {
    finish(serial, {Code::kInvalidArgument, "the slot is smaller than the chunk"});
    return true;
  }
  op.moving = bytes;
  lanes_[offer.member].reading_bytes += bytes;
  // The member refuses a longer part: parts bound the reply that a member queues for one
  // connection.
  for (std::uint64_t offset = 0; offset < bytes; offset += kMostPartBytes) {
    const std::uint64_t part = std::min(kMostPartBytes, bytes - offset);
    net::Request request;
    request.around.before = format_get(op.command.key, offer.facts.generation, offset, part);
    // The connection writes straight into the slot. The expected length bounds the write, whatever
    // the peer sends.
    request.expect = {"$", part, op.command.slot.subspan(offset, part)};
    request.owner = serial;
    request.then = [this, serial, part](const Status& lost, const net::Reply& reply) {
      on_part(serial, part, lost, reply);
    };
    if (!member->payloads->ask(std::move(request)).ok()) break;
    ++op.waiting;
  }
  return true;
}

// The operation ends with its last part: until then other parts are written into the slot.
void PeerEngine::on_part(std::uint64_t serial, std::uint64_t part_bytes, const Status& lost,
                         const net::Reply& reply) {
  const auto at = operations_.find(serial);
  if (at == operations_.end()) return;
  Op& op = at->second;
  Status status;
  if (!lost.ok())
    status = {Code::kUnavailable, lost.text()};
  else if (reply.kind != net::Reply::Kind::kPayload)
    status = {Code::kNotFound, "the peer has the chunk no more"};
  else if (static_cast<std::uint64_t>(reply.integer) != part_bytes)  // mutation: peer-part-whole
    status = {Code::kDataLoss, "a part of another length"};
  counters_.records_corrupt += status.code() == Code::kDataLoss ? 1 : 0;
  if (op.failed.ok()) op.failed = status;
  if (--op.waiting == 0) finish(serial, op.failed, op.offer.facts);
}

void PeerEngine::miss_deadlines() {
  const std::uint64_t now_ns = clock_.now_ns();
  std::vector<std::uint64_t> late;
  for (const auto& [serial, op] : operations_)
    if (op.command.deadline_ns <= now_ns) late.push_back(serial);
  for (const std::uint64_t serial : late) {
    const bool started = operations_.at(serial).started;
    probes_.cancel(serial);
    // Late bytes are discarded from here on. Without this call they would land in the slot, which
    // may have another chunk by then.
    if (started) members_.cancel(serial);  // the slot is free from here on
    finish(serial, {Code::kDeadlineExceeded, "no peer answered in time"});
  }
}

void PeerEngine::abandon(const Status& why) {
  while (!operations_.empty()) {
    const std::uint64_t serial = operations_.begin()->first;
    probes_.cancel(serial);
    members_.cancel(serial);
    finish(serial, why);
  }
}

void PeerEngine::take_outcomes(std::vector<tiers::Outcome>& out) {
  out.insert(out.end(), std::make_move_iterator(outcomes_.begin()),
             std::make_move_iterator(outcomes_.end()));
  outcomes_.clear();
}

tiers::TierState PeerEngine::state() const {
  const Members::View view = members_.view();
  tiers::TierState state;
  state.mode = options_.tls.enabled ? "TLS" : "TCP";
  state.servers = static_cast<std::uint32_t>(view.known);
  state.servers_reachable = static_cast<std::uint32_t>(view.reachable);
  // A pool of one has no peer and no failure. Its probes miss at once, and the tier does not count
  // as degraded.
  state.takes_gets = view.reachable != 0 || view.failure.empty();
  if (!view.failure.empty())
    state.reason = std::to_string(view.known - view.reachable) + " of " +
                   std::to_string(view.known) + " peers cannot be reached: " + view.failure;
  return state;
}

tiers::TierCounters PeerEngine::counters() const {
  tiers::TierCounters counters = counters_;
  counters.records_corrupt += probes_.malformed();
  counters.written_bytes = members_.sent_bytes();
  counters.read_bytes = members_.received_bytes();
  counters.chunks = offers_.chunks();
  counters.used_bytes = offers_.slot_bytes();
  return counters;
}

}  // namespace larder::peer
