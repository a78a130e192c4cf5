#include "sidecar/tiering/tier_writer.h"

#include <algorithm>
#include <utility>

#include "sidecar/base/log_throttle.h"
#include "sidecar/tiering/chunk_key.h"

namespace larder::tiering {
namespace {

using tiers::Message;
using tiers::Operation;

// No engine waits for a put; a slow tier is degraded long before.
constexpr std::uint64_t kPutMs = 30'000;
constexpr std::uint64_t kMostBytes =
    64ULL << 20;  // of puts in flight, below the bound of the tier: leaves room for reads
// And at most this share of memory, because these slots cannot be evicted.
constexpr std::uint64_t kArenaShare = 8;
constexpr std::size_t kMostPuts = 256;
constexpr std::size_t kMostQueued = 4096;
constexpr std::uint32_t kWalkSlots = 4096;  // a tick
// The interval of looks at written chunks, which the tier may have lost.
constexpr std::uint32_t kRecheckTicks = 10;

// The number of chunks that the admission filter distinguishes, at 8 bytes each.
std::size_t chunks_in_fashion(std::uint64_t bytes) {
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(bytes >> 20, 1 << 14, 1 << 22));
}

bool same_layout(const tiers::ChunkFacts& a, const tiers::ChunkFacts& b) {
  return a.payload_bytes == b.payload_bytes && a.piece_bytes == b.piece_bytes;
}

}  // namespace

WriteRules rules_for(const config::DiskConfig& config) {
  return {config.write == config::DiskWrite::kThrough, config.admit_after, config.ttl_s,
          config.size_bytes, 0};
}

WriteRules rules_for(const config::BackendConfig& config) {
  const bool popular = config.write == config::BackendWrite::kPopular;
  return {config.write != config::BackendWrite::kEvicted, popular ? 2U : 1U, config.ttl_s, 0,
          config.write_bytes_per_s};
}

TierWriter::TierWriter(TierLink& link, store::Store& store, const base::Clock& clock,
                       const WriteRules& rules, std::uint64_t arena_bytes)
    : link_(link),
      store_(store),
      clock_(clock),
      rules_(rules),
      // About one chunk for each MiB: memory and tier together are what the popularity is measured
      // over.
      fashion_(chunks_in_fashion(arena_bytes + rules.tier_bytes)),
      most_bytes_(std::min(kMostBytes, arena_bytes / kArenaShare)),
      admission_(rules.admit_after, fashion_),
      budget_(rules.bytes_per_s),
      stored_(rules.ttl_s, clock),
      refused_(link.name()) {
  stored_.tick(store.last_generation());
  store_.tiers().set(link_.number(), this);
  link_.answer_to(Operation::kPut, [this](const Message& message) { put_ended(message); });
  for (const Operation operation : {Operation::kDrop, Operation::kClear})
    link_.answer_to(operation, [this](const Message& message) { drop_ended(message); });
  link_.answer_to(Operation::kFlush, [this](const Message& message) {
    if (message.ticket == flush_ticket_) flushed_ = message.status;
  });
}

TierWriter::~TierWriter() {
  store_.tiers().set(link_.number(), nullptr);
  // A closing tier may still send messages after the end of this object.
  for (const Operation operation :
       {Operation::kPut, Operation::kDrop, Operation::kClear, Operation::kFlush})
    link_.answer_to(operation, nullptr);
  for (Drop& drop : drops_) drop.ended.set_value({Code::kUnavailable, "larderd is stopping"});
}

void TierWriter::write_by(const WriteRules& rules) {
  if (rules.admit_after != rules_.admit_after) admission_ = Admission(rules.admit_after, fashion_);
  if (rules.bytes_per_s != rules_.bytes_per_s) budget_ = base::ByteBudget(rules.bytes_per_s);
  rules_.through = rules.through;
  rules_.admit_after = rules.admit_after;
  rules_.bytes_per_s = rules.bytes_per_s;
}

void TierWriter::tick() {
  ++ticks_;
  stored_.tick(store_.last_generation());
  std::erase_if(dropping_, [](const Dropping& one) { return one.going_on.expired(); });
  look_at_sizes();
  refused_.give_back(
      [this](auto slot, auto generation) {
        return store_.committed_chunk(slot, generation).has_value();
      },
      clock_.now_ns());
  send_drops();
  notice_failures();
  look_ahead();
  if (rules_.through) walk();
  pump();
}

// A tier that failed may have lost chunks: one round of the walk checks all chunks. The losses of a
// server are known only once the server is back.
void TierWriter::notice_failures() {
  const std::uint64_t times = link_.tier().counters().times_degraded;
  const bool degraded = !link_.tier().state().reason.empty(),
             back = std::exchange(degraded_, degraded) && !degraded;
  if (times == std::exchange(times_degraded_, times) && !back) return;
  walked_to_ = 0;
  walking_all_ = true;
  if (!degraded) refused_.tier_is_back();
}

void TierWriter::look_ahead() {
  began_ = false;
  found_.clear();
  store_.next_to_go(link_.number(), found_, ticks_ % kRecheckTicks == 0);
  ahead_.assign(found_.begin(), found_.end());
}

// Finds chunks that had no room in the queue, failed, or were admitted later.
void TierWriter::walk() {
  if (queued_.size() + kWalkSlots > kMostQueued) return;
  found_.clear();
  walked_to_ = store_.tiers().walk(link_.number(), walked_to_, kWalkSlots, found_, walking_all_);
  if (walked_to_ == store::kNoSlot) {
    walked_to_ = 0;
    walking_all_ = false;
  }
  queued_.insert(queued_.end(), found_.begin(), found_.end());
}

void TierWriter::pump() {
  for (std::deque<protocol::SlotRef>* slots : {&ahead_, &queued_}) {
    while (!slots->empty()) {
      if (!begin(slots->front())) return;
      slots->pop_front();
    }
  }
  // A fast tier empties the queue before the next tick: look ahead again.
  if (!std::exchange(began_, false)) return;
  look_ahead();
  while (!ahead_.empty() && begin(ahead_.front())) ahead_.pop_front();
}

// False: the tier accepts no chunk now.
bool TierWriter::begin(const protocol::SlotRef& slot) {
  const std::optional<protocol::EntryView> chunk =
      store_.committed_chunk(slot.slot, slot.generation);
  if (!chunk || writing_.contains(slot.slot) || refused_.waits(slot, clock_.now_ns())) return true;
  const tiers::ChunkKey key = chunk_key_of(store_, chunk->key);
  tiers::ChunkFacts facts{chunk->generation, chunk->payload_bytes, chunk->piece_bytes, chunk->root};
  if (facts.slot_bytes() >= too_large_bytes_ || is_dropping(key.namespace_id)) return true;
  const std::optional<tiers::ChunkFacts> known = link_.tier().probe(key);
  // Under any generation: a promoted chunk has another generation in memory.
  const bool below = known && same_bytes(*known, facts);
  // Another layout of the text has replaced the chunk. Two layouts in memory would otherwise
  // replace each other for ever.
  if (known && !same_layout(*known, facts) &&
      store_.tiers().written_to(link_.number(), slot.slot)) {  // mutation: layout-once
    refused_.forget(slot);
    return true;
  }
  store_.tiers().mark_written(link_.number(), slot.slot, slot.generation, below);
  if (below || !wants(*chunk)) {
    refused_.forget(slot);
    return true;
  }
  if (rules_.ttl_s != 0)
    facts.since_s = static_cast<std::uint32_t>(ChunkAge::unix_ns() / 1'000'000'000 - age_s(*chunk));
  return start_put(*chunk, key, facts);
}

bool TierWriter::start_put(const protocol::EntryView& chunk, const tiers::ChunkKey& key,
                           const tiers::ChunkFacts& facts) {
  // Each tier has its own budget and queue, so a slow tier never delays another.
  const std::uint64_t bytes = facts.slot_bytes();
  if (!puts_.empty() && (puts_.size() >= kMostPuts || writing_bytes_ + bytes > most_bytes_))
    return false;
  // The budget may be overdrawn by one chunk, and is then paid back: any chunk size gets through.
  if (!budget_.any(clock_.now_ns())) return false;
  if (!store_.readers().keep(chunk.slot, chunk.generation))
    return true;  // mutation: write-keeps-slot
  const tiers::Ticket ticket = link_.next_ticket();
  const Status taken =
      link_.tier().put(ticket, key, facts, store_.slot_memory(chunk), in_ms(kPutMs));
  if (!taken.ok()) {
    store_.readers().let_go(chunk.slot, chunk.generation);
    if (taken.code() == Code::kOutOfRange) too_large(bytes, taken);
    return taken.code() != Code::kResourceExhausted && taken.code() != Code::kUnavailable;
  }
  began_ = true;
  budget_.spend(bytes);
  puts_.emplace(ticket, Put{{chunk.slot, 0, chunk.generation}, key, bytes, clock_.now_ns()});
  writing_.insert(chunk.slot);
  writing_bytes_ += bytes;
  return true;
}

// The time since the store of the chunk, or more.
std::uint64_t TierWriter::age_s(const protocol::EntryView& chunk) const {
  const auto up = came_up_.find(chunk.slot);
  if (up == came_up_.end() || up->second.generation != chunk.generation)
    return stored_.age_s(chunk.generation);
  const std::uint64_t now_s = ChunkAge::unix_ns() / 1'000'000'000;
  return now_s - std::min<std::uint64_t>(now_s, up->second.since_s);
}

void TierWriter::put_ended(const Message& message) {
  const auto found = puts_.find(message.ticket);
  if (found == puts_.end()) return;
  const Put put = found->second;
  if (message.kind == Message::Kind::kDone && message.status.ok()) {
    ++written_;
    put_time_.record(clock_.now_ns() - put.begun_ns);
    store_.tiers().mark_written(link_.number(), put.slot.slot, put.slot.generation);
    refused_.stored(put.slot, clock_.now_ns());
    if (put.damaged) link_.tier().forget(put.key, put.slot.generation);
  } else if (message.kind == Message::Kind::kDone && message.status.code() == Code::kOutOfRange) {
    too_large(put.bytes, message.status);
  } else if (message.kind == Message::Kind::kDone &&
             message.status.code() != Code::kNotFound) {  // or dropped, or evicted
    const bool away = !link_.tier().state().takes_puts;
    refused_.refused(put.slot, away ? Status(message.status.code(), "") : message.status,
                     message.again_ns, clock_.now_ns());
  }
  // The device still reads the slot.
  if (message.slot_busy) return;  // mutation: write-busy-slot
  puts_.erase(found);
  writing_.erase(put.slot.slot);
  writing_bytes_ -= put.bytes;
  store_.readers().let_go(put.slot.slot, put.slot.generation);
}

// Checks the largest chunk of all namespaces, so that the log names chunks that never fit before
// the first write.
void TierWriter::look_at_sizes() {
  const std::uint64_t bytes = store_.namespaces().largest_slot_bytes();
  const Status takes = link_.tier().takes(bytes);
  if (!takes.ok())
    too_large(bytes, takes);
  else if (bytes < too_large_bytes_)
    too_large_.clear();
}

// The tier never accepts a chunk of this size: such chunks are not offered again.
void TierWriter::too_large(std::uint64_t bytes, const Status& why) {
  too_large_bytes_ = std::min(too_large_bytes_, bytes);
  if (too_large_ == why.text()) return;
  too_large_ = why.text();
  // log_refusal() ignores numbers: an engine that stores chunks of ever smaller size gets one line.
  base::log_refusal(link_.name() + " tier", too_large_, base::LogLevel::kWarning,
                    link_.name() + " tier: " + too_large_);
}

void TierWriter::committed(const protocol::EntryView& chunk) {
  admission_.see(chunk.key.mixed());
  if (!rules_.through) return;
  if (queued_.size() < kMostQueued) queued_.push_back({chunk.slot, 0, chunk.generation});
  // walk() finds the chunk later.
  else
    ++not_queued_;
}

void TierWriter::used(const protocol::EntryView& chunk) {
  admission_.see(chunk.key.mixed());
}

// The tier may have a copy of the damaged bytes.
void TierWriter::damaged(const protocol::EntryView& chunk) {
  const tiers::ChunkKey key = chunk_key_of(store_, chunk.key);
  const std::optional<tiers::ChunkFacts> known = link_.tier().probe(key);
  if (known) link_.tier().forget(key, known->generation);  // mutation: bad-forgotten
  // A shared tier may have the chunk without our knowledge. If the tier refuses the eviction, the
  // chunk is found bad once more.
  if (!known && link_.shared()) static_cast<void>(link_.tier().evict(key));
  for (auto& [ticket, put] : puts_) put.damaged = put.damaged || put.slot.slot == chunk.slot;
}

void TierWriter::came_up(const protocol::EntryView& chunk, std::uint32_t since_s) {
  // Without a time to live the age is never asked for, and the table stays empty.
  if (rules_.ttl_s == 0) return;
  const std::optional<tiers::ChunkFacts> known =
      link_.tier().probe(chunk_key_of(store_, chunk.key));
  came_up_[chunk.slot] = {chunk.generation, known ? known->since_s : since_s};
}

bool TierWriter::wants(const protocol::EntryView& chunk) const {
  return protocol::slot_bytes(chunk.payload_bytes, chunk.piece_bytes) < too_large_bytes_ &&
         !too_old(chunk) && admission_.admits(chunk.key.mixed());
}

// An eviction also makes a put in progress fail. A tier that is away may still have the chunk when
// it is back.
store::EvictedBelow TierWriter::evicted(const protocol::Key& key) {
  const tiers::ChunkKey chunk = chunk_key_of(store_, key);
  const bool coming =
      std::ranges::any_of(puts_, [&](const auto& put) { return put.second.key == chunk; });
  const bool there = coming || link_.tier().probe(chunk).has_value();
  if (!there && !link_.shared())
    return link_.tier().state().takes_gets ? store::EvictedBelow::kAbsent
                                           : store::EvictedBelow::kRefused;
  if (!there)  // another larderd may have put the chunk
    return link_.tier().evict(chunk).ok() ? store::EvictedBelow::kAbsent
                                          : store::EvictedBelow::kRefused;
  return link_.tier().evict(chunk).ok() ? store::EvictedBelow::kGone
                                        : store::EvictedBelow::kRefused;
}

void TierWriter::fill(stats::TierStats& stats) const {
  stats.write_queue = ahead_.size() + queued_.size() + puts_.size();
  stats.not_queued = not_queued_;
  stats.put_time = put_time_;
  if (stats.reason.empty()) stats.reason = refused_.reason();
  if (stats.reason.empty()) stats.reason = too_large_;
}

}  // namespace larder::tiering
