#include "sidecar/tiering/promotion_reads.h"

#include <algorithm>
#include <utility>

namespace larder::tiering {

using protocol::GrantStatus;
using tiers::Message;
using tiers::Ticket;

namespace {
constexpr std::size_t kMostForgotten = 1024;  // tickets of unwanted reads in the queue
}  // namespace

PromotionReads::PromotionReads(std::span<ReadableTier* const> sources, store::Store& store,
                               const base::Clock& clock, std::span<std::byte> arena)
    : store_(store), clock_(clock), arena_(arena), sources_(sources.begin(), sources.end()) {
  for (ReadableTier* source : sources)
    for (std::uint32_t lane = 0; lane < source->lanes(); ++lane)
      lanes_.push_back({source, {}, {}, 0});
}

std::optional<Found> PromotionReads::probe(const tiers::ChunkKey& chunk) const {
  // A slow tier is better than none, but a fast tier further away is better than both.
  std::optional<Found> slow;
  for (ReadableTier* source : sources_) {
    const bool in_time = source->in_time();
    if (slow && !in_time) continue;
    const std::optional<tiers::ChunkFacts> facts = source->probe(chunk);
    if (!facts) continue;
    if (in_time) return Found{source, *facts};
    slow = Found{source, *facts};
  }
  return slow;
}

const ReadableTier* PromotionReads::coming(const protocol::Key& key) const {
  const auto known = by_key_.find(key);
  return known == by_key_.end() ? nullptr : reads_.at(known->second).lane->source;
}

PromotionReads::Lane& PromotionReads::lane_of(const ReadableTier& source,
                                              const tiers::ChunkKey& chunk) {
  const auto first = std::ranges::find(lanes_, &source, &Lane::source);
  return first[source.lane_of(chunk)];  // mutation: read-lanes
}

PromotionReads::Read& PromotionReads::enter(const protocol::Key& key, const tiers::ChunkKey& chunk,
                                            const Found& found, Ticket& ticket) {
  const auto known = by_key_.find(key);
  // One read for each chunk, whoever asks: two reads of a shared prefix would take the place of
  // other chunks.
  ticket = known != by_key_.end() ? known->second : found.source->next_ticket();
  Read& read = reads_[ticket];
  if (known != by_key_.end()) return read;
  by_key_.emplace(key, ticket);
  read.lane = &lane_of(*found.source, chunk);
  read.key = key;
  read.chunk = chunk;
  read.facts = found.facts;
  return read;
}

Ticket PromotionReads::want(const protocol::Key& key, const tiers::ChunkKey& chunk,
                            const Found& found) {
  Ticket ticket = 0;
  Read& read = enter(key, chunk, found, ticket);
  ++read.wanted;
  if (!read.begun && !std::exchange(read.waits, true)) read.lane->waiting.push_back(ticket);
  return ticket;
}

bool PromotionReads::want_ahead(const protocol::Key& key, const tiers::ChunkKey& chunk,
                                const Found& found) {
  if (by_key_.contains(key)) return true;
  const std::uint64_t bytes = found.facts.slot_bytes();
  const Lane& lane = lane_of(*found.source, chunk);
  // Prefetched chunks displace others. Half of memory at most, so a long list cannot flush the
  // cache.
  if (lane.waiting_ahead.size() >= kMostWaiting ||
      ahead_bytes_ + bytes > arena_.size() / kAheadShare)
    return false;
  Ticket ticket = 0;
  Read& read = enter(key, chunk, found, ticket);
  read.ahead = true;
  ahead_bytes_ += bytes;
  read.lane->waiting_ahead.push_back(ticket);
  return true;
}

void PromotionReads::stop_wanting(Ticket ticket) {
  const auto found = reads_.find(ticket);
  if (found == reads_.end() || found->second.wanted == 0) return;
  Read& read = found->second;
  // A running read cannot be taken back: the device writes into the slot already.
  if (--read.wanted != 0 || read.begun || read.ahead) return;
  std::deque<Ticket>& queue = read.lane->waiting;
  by_key_.erase(read.key);
  reads_.erase(found);
  // Erasing a ticket from the middle of a queue costs its length. Dead tickets stay until they are
  // the majority.
  if (queue.size() > 2 * reads_.size() + kMostForgotten)
    std::erase_if(queue, [this](Ticket waiting) { return !reads_.contains(waiting); });
}

bool PromotionReads::begin(std::uint64_t until) {
  bool more = false;
  for (Lane& lane : lanes_) more = begin(lane, until) || more;
  return more;
}

bool PromotionReads::begin(Lane& lane, std::uint64_t until) {
  while (store_.effort() < until)
    // Reads ahead begin only when no fetch waits in this lane, and within a smaller bound: a later
    // fetch then finds room.
    if (!begin_one(lane, lane.waiting, kReadingBytes) &&
        (!lane.waiting.empty() || !begin_one(lane, lane.waiting_ahead, kAheadBytes)))
      return false;
  return !lane.waiting.empty() || !lane.waiting_ahead.empty();
}

// False: the queue is empty, or its first read cannot begin now.
bool PromotionReads::begin_one(Lane& lane, std::deque<Ticket>& queue, std::uint64_t limit) {
  while (!queue.empty()) {
    const Ticket ticket = queue.front();
    const auto found = reads_.find(ticket);
    if (found == reads_.end() || found->second.begun) {
      queue.pop_front();
      continue;
    }
    Read& read = found->second;
    // The first read of an idle lane always begins, so a chunk larger than the bound is read too.
    if (lane.reading_bytes != 0 && lane.reading_bytes + read.facts.slot_bytes() > limit)
      return false;
    if (begin_read(ticket, read) == Begun::kNotNow) return false;
    queue.pop_front();
    return true;
  }
  return false;
}

PromotionReads::Begun PromotionReads::begin_read(Ticket ticket, Read& read) {
  ReadableTier& source = *read.lane->source;
  // Checked at the start of the read: the drop may have come while the read waited.
  if (source.hides(read.chunk.namespace_id)) {
    end(ticket, {Code::kNotFound, "the namespace is being dropped"});
    return Begun::kNo;
  }
  const protocol::Grant grant =
      store_.promote(read.key, read.facts.payload_bytes, read.facts.piece_bytes);
  switch (static_cast<GrantStatus>(grant.status)) {
    case GrantStatus::kGranted: break;
    // An engine stored the chunk meanwhile. Its bytes are as good, and cost no read.
    case GrantStatus::kPresent:
      read.slot = {grant.slot, 0, grant.generation};
      end(ticket, {});
      return Begun::kNo;
    case GrantStatus::kPending:
      end(ticket, {Code::kNotFound, "an engine is writing the chunk"});
      return Begun::kNo;
    case GrantStatus::kNoSpace:
      end(ticket, {Code::kResourceExhausted, "memory is full of chunks in use"});
      return Begun::kNo;
    case GrantStatus::kRefused:
      end(ticket, {Code::kNotFound, "of another layout"});
      return Begun::kNo;
  }
  read.slot = {grant.slot, 0, grant.generation};
  const std::uint64_t bytes = read.facts.slot_bytes();
  read.begun_ns = clock_.now_ns();
  const Status status = source.read(ticket, read.chunk, arena_.subspan(grant.offset_bytes, bytes),
                                    read.begun_ns + kReadMs * 1'000'000);
  if (status.ok()) {
    read.begun = true;
    read.lane->reading_bytes += bytes;
    return Begun::kYes;
  }
  store_.promotion_failed(read.slot);
  // The grant was given back above. A waiting read must not hold a slot that engines could use.
  if (status.code() == Code::kResourceExhausted)
    return Begun::kNotNow;  // busy: a message of the tier follows
  end(ticket, {Code::kUnavailable, status.text()});
  return Begun::kNo;
}

bool PromotionReads::on_message(const Message& message) {
  const auto found = reads_.find(message.ticket);
  if (found == reads_.end()) return false;
  Read& read = found->second;
  const std::uint64_t bytes = read.facts.slot_bytes();
  // A slot that the device still uses counts against the bound of the lane: a hanging tier must
  // not take slot after slot.
  if (message.kind == Message::Kind::kReleased || !message.slot_busy)
    read.lane->reading_bytes -= bytes;
  if (message.kind == Message::Kind::kReleased) {
    store_.promotion_failed(read.slot);
    reads_.erase(found);
    return true;
  }
  ReadableTier& source = *read.lane->source;
  source.read_ended(bytes, message.status.ok(), read.begun_ns);
  const bool same = message.facts.payload_bytes == read.facts.payload_bytes &&
                    message.facts.piece_bytes == read.facts.piece_bytes;
  Status status = message.status;
  // Another larderd may have stored the chunk anew between the look and the read. Its bytes fill
  // another part of the slot.
  if (status.ok() && !same)
    status = {Code::kNotFound, "the chunk was stored anew, in another layout"};
  if (!status.ok() && !message.slot_busy)
    store_.promotion_failed(read.slot);  // mutation: busy-slot
  // A drop during the read wins: the chunk must not come back.
  if (status.ok() && !store_.promoted(read.slot, message.facts.root, source.number(),
                                      message.facts.since_s, source.read_only()))
    status = {Code::kNotFound, "dropped meanwhile"};
  read.ended = message.slot_busy;
  if (message.slot_busy)
    store_.sessions().quarantine_grant(store::kOwnSession,
                                       read.slot);  // an engine may store the chunk in another slot
  end(message.ticket, std::move(status), bytes);
  return true;
}

// Reports the outcome. A read whose slot is still busy stays until the device releases the slot.
void PromotionReads::end(Ticket ticket, Status status, std::uint64_t read_bytes) {
  const auto found = reads_.find(ticket);
  const Read& read = found->second;
  if (status.ok() && !store_.readers().keep(read.slot.slot, read.slot.generation))
    status = {Code::kNotFound, "gone meanwhile"};
  // Queued and not called back: the caller may be in the middle of a loop over its fetches.
  outcomes_.push_back({ticket, std::move(status), read.slot, read_bytes});
  by_key_.erase(read.key);
  if (read.ahead) ahead_bytes_ -= read.facts.slot_bytes();
  if (!read.ended) reads_.erase(found);
}

std::optional<PromotionReads::Outcome> PromotionReads::take_outcome() {
  if (outcomes_.empty()) return std::nullopt;
  Outcome outcome = std::move(outcomes_.front());
  outcomes_.pop_front();
  return outcome;
}

}  // namespace larder::tiering
