#include "sidecar/tiering/promoter.h"

#include <algorithm>

#include "sidecar/base/log_throttle.h"
#include "sidecar/base/sizes.h"
#include "sidecar/tiering/chunk_key.h"

namespace larder::tiering {

using protocol::FetchEnd;
using protocol::SlotState;
using store::SessionNumber;
using tiers::Ticket;

namespace {

// Reads of one fetch that may run before earlier families are complete.
constexpr std::uint32_t kReadsAhead = 512;

FetchEnd reason_for(const Status& status) {
  switch (status.code()) {
    case Code::kNotFound: return FetchEnd::kAbsent;
    case Code::kResourceExhausted: return FetchEnd::kNoRoom;
    default: return FetchEnd::kFailed;
  }
}

}  // namespace

Promoter::Promoter(std::span<ReadableTier* const> sources, store::Store& store, stats::Stats& stats,
                   const base::Clock& clock, std::span<std::byte> arena)
    : sources_(sources.begin(), sources.end()),
      store_(store),
      stats_(stats),
      clock_(clock),
      kept_cap_(arena.size() / protocol::kFetchedShare),
      reads_(sources, store, clock, arena) {}

Status Promoter::fetch(SessionNumber session, std::uint32_t request, const protocol::Fetch& asked,
                       std::span<const protocol::BlockHash> hashes) {
  const FetchId id{session, request};
  // The engine chooses the number. A second fetch under it would make the end of either ambiguous.
  if (fetches_.contains(id))
    return {Code::kInvalidArgument, "request " + std::to_string(request) + " runs already"};
  ++stats_.fetches;
  const auto begin = fetches_.lower_bound({session, 0}),
             end = fetches_.upper_bound({session, UINT32_MAX});
  Fetch fetch;
  fetch.handle = asked.namespace_handle;
  fetch.hashes.assign(hashes.begin(), hashes.end());
  fetch.begun_ns = clock_.now_ns();
  fetch.deadline_ns = fetch.begun_ns +
                      std::uint64_t{std::min(asked.deadline_ms, protocol::kMaxFetchMs)} * 1'000'000;
  fetch.limit = static_cast<std::uint32_t>(hashes.size());
  // Too many at once is an answer and not an error: the engine computes the tokens.
  if (std::distance(begin, end) >= protocol::kMaxFetches) {
    fetch.limit = 0;
    fetch.reason = FetchEnd::kBound;
  }
  const auto entered = fetches_.emplace(id, std::move(fetch)).first;
  deadlines_.emplace(entered->second.deadline_ns, id);
  look_on(id, entered->second);
  decide(id, entered->second);
  return {};
}

void Promoter::end(SessionNumber session, std::uint32_t request) {
  miss_deadlines();  // a late fetch counts as late, even if its engine gave up just before
  if (const auto found = fetches_.find({session, request}); found != fetches_.end()) forget(found);
}

void Promoter::end_session(SessionNumber session) {
  for (auto next = fetches_.lower_bound({session, 0});
       next != fetches_.end() && next->first.first == session;)
    forget(next++);  // mutation: kept-session-end
}

protocol::ActCounts Promoter::prefetch(std::uint32_t handle,
                                       std::span<const protocol::BlockHash> hashes) {
  protocol::ActCounts counts;
  const std::uint64_t until = store_.effort() + store::Store::kSliceEffort;
  for (std::size_t i = 0; i < hashes.size() && store_.effort() < until; ++i) {
    // Nobody waits for a prefetch, so nothing is kept: the chunks are at the mercy of the eviction
    // like all others.
    const Probe probe = look_at(handle, hashes[i]);
    bool room = true;
    for (std::size_t member = 0; member < members_.size(); ++member) {
      const store::Member& one = members_[member];
      if (one.state == SlotState::kCommitted) store_.touch(one.slot.slot, one.slot.generation);
      if (one.state != SlotState::kFree || !probe.there) continue;
      room = room && reads_.want_ahead(one.key, chunk_key_of(store_, one.key), *found_[member]);
    }
    ++(!probe.there ? counts.absent : room ? counts.found : counts.refused);
  }
  return counts;
}

bool Promoter::go_on() {
  // The slice is a batch of its own. Chunks that an earlier message used would count as just used,
  // and a fetched tail would stay below them.
  store_.begin_uses();  // mutation: fetch-batch
  const std::uint64_t until = store_.effort() + store::Store::kSliceEffort;
  while (!looking_.empty() && store_.effort() < until) {
    const FetchId id = looking_.front();
    const auto found = fetches_.find(id);
    // Family by family: the effort of the store counts each look, so the slice may end within a
    // fetch.
    if (found != fetches_.end() && found->second.looking && probe(id, found->second)) continue;
    looking_.pop_front();
    if (found == fetches_.end()) continue;
    found->second.looking = false;
    decide(id, found->second);
  }
  const bool more = reads_.begin(until);
  take_outcomes();
  return more || !looking_.empty();
}

void Promoter::look_on(const FetchId& id, Fetch& fetch) {
  if (fetch.answered || fetch.looking || fetch.families.size() >= fetch.limit ||
      fetch.reading >= kReadsAhead)
    return;
  fetch.looking = true;
  looking_.push_back(id);
}

// Fills members_, and found_ for chunks in lower tiers. A chunk that an engine is writing counts as
// absent: the engine may give up.
Promoter::Probe Promoter::look_at(std::uint32_t handle, const protocol::BlockHash& hash) {
  // A family is a chunk with all its shards and KV groups. An engine uses the whole family.
  store_.families().look_at(handle, hash, members_);
  found_.assign(members_.size(), std::nullopt);
  Probe probe{!members_.empty(), 0};
  for (std::size_t i = 0; i < members_.size() && probe.there; ++i) {
    probe.bytes += slot_bytes_of(store_, members_[i].key);
    if (members_[i].state == SlotState::kCommitted) continue;
    found_[i] = reads_.probe(chunk_key_of(store_, members_[i].key));
    // A chunk of another layout would not fit the slots of this namespace.
    if (found_[i] && !of_layout(store_, members_[i].key, found_[i]->facts)) found_[i].reset();
    probe.there = found_[i].has_value() &&
                  (members_[i].state == SlotState::kFree || reads_.coming(members_[i].key));
  }
  return probe;
}

// Whether a session may keep so many more bytes. One session always leaves room for the first
// families of others.
bool Promoter::may_keep(SessionNumber session, std::uint64_t bytes) const {
  if (bytes > kept_cap_ - kept_bytes_) return false;
  const auto found = kept_of_.find(session);
  if (found == kept_of_.end()) return true;
  const std::uint64_t own = found->second, not_of_others = kept_cap_ - (kept_bytes_ - own);
  return own + bytes <=
         not_of_others - not_of_others / protocol::kFetchedLeftShare;  // mutation: fetch-share-left
}

// Looks at one more family. False: no further family now.
bool Promoter::probe(const FetchId& id, Fetch& fetch) {
  if (fetch.families.size() >= fetch.limit || fetch.reading >= kReadsAhead) return false;
  const auto number = static_cast<std::uint32_t>(fetch.families.size());
  const Probe probe = look_at(fetch.handle, fetch.hashes[number]);
  // Counted before the reads: their slots cannot be evicted while the fetch waits.
  if (!probe.there || !may_keep(id.first, probe.bytes)) {
    cut(id, fetch, number, probe.there ? FetchEnd::kBound : FetchEnd::kAbsent);
    return false;
  }
  Family& family = fetch.families.emplace_back();
  family.bytes = probe.bytes;
  kept_bytes_ += probe.bytes;
  kept_of_[id.first] += probe.bytes;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const store::Member& one = members_[i];
    if (one.state == SlotState::kCommitted) {
      store_.touch(one.slot.slot, one.slot.generation);
      if (store_.readers().keep(one.slot.slot, one.slot.generation))
        family.kept.push_back(one.slot);  // mutation: resident-kept
      continue;
    }
    const Ticket ticket = reads_.want(one.key, chunk_key_of(store_, one.key), *found_[i]);
    // Several fetches may wait for one read of a chunk that engines share.
    waiters_[ticket].push_back({id, number});
    family.reads.push_back(ticket);
    ++family.missing;
    ++fetch.reading;
  }
  return true;
}

bool Promoter::on_get(const tiers::Message& message) {
  for (ReadableTier* source : sources_)
    // Reads for measuring the speed are gets too, without a waiting fetch.
    if (source->on_probe(message)) return true;
  const bool ours = reads_.on_message(message);
  take_outcomes();
  return ours;
}

void Promoter::take_outcomes() {
  while (const std::optional<PromotionReads::Outcome> outcome = reads_.take_outcome()) {
    if (outcome->status.ok())
      stats_.promoted_bytes += outcome->read_bytes;
    else
      ++stats_.promotions_failed;
    if (const auto found = waiters_.find(outcome->ticket); found != waiters_.end()) {
      // Taken out first: give() may cut fetches, which changes the table of waiters.
      const std::vector<Waiter> waiters = std::move(found->second);
      waiters_.erase(found);
      for (const Waiter& waiter : waiters) give(*outcome, waiter);
    }
    // After the waiters have kept the chunk: in between the chunk must not be evicted.
    if (outcome->status.ok()) store_.readers().let_go(outcome->slot.slot, outcome->slot.generation);
  }
}

void Promoter::give(const PromotionReads::Outcome& outcome, const Waiter& waiter) {
  const auto found = fetches_.find(waiter.fetch);
  if (found == fetches_.end()) return;
  Fetch& fetch = found->second;
  if (waiter.family >= fetch.families.size())
    return;  // cut before: the fetch named the chunk twice
  Family& family = fetch.families[waiter.family];
  --fetch.reading;
  --family.missing;
  std::erase(family.reads, outcome.ticket);
  if (outcome.status.ok() &&
      store_.readers().keep(outcome.slot.slot,
                            outcome.slot.generation)) {  // mutation: promoted-kept
    family.kept.push_back(outcome.slot);
    fetch.read_bytes += outcome.read_bytes;
  } else {
    cut(waiter.fetch, fetch, waiter.family, reason_for(outcome.status));
  }
  look_on(waiter.fetch, fetch);
  decide(waiter.fetch, fetch);
}

// Limits a fetch to its first `limit` families.
void Promoter::cut(const FetchId& id, Fetch& fetch, std::uint32_t limit, FetchEnd reason) {
  if (limit >= fetch.limit) return;
  fetch.limit = limit;
  fetch.reason = reason;
  // An engine loads a prefix. Families behind the first gap are of no use to this fetch, so their
  // slots are free again.
  while (fetch.families.size() > limit) {
    release(id, fetch, static_cast<std::uint32_t>(fetch.families.size() - 1));
    fetch.families.pop_back();
  }
}

void Promoter::release(const FetchId& id, Fetch& fetch, std::uint32_t number) {
  const Family& family = fetch.families[number];
  for (const protocol::SlotRef& slot : family.kept)
    store_.readers().let_go(slot.slot, slot.generation);  // mutation: kept-fetch-end
  for (const Ticket ticket : family.reads) {
    if (const auto found = waiters_.find(ticket); found != waiters_.end()) {
      std::erase_if(found->second, [&](const Waiter& waiter) {
        return waiter.fetch == id && waiter.family == number;
      });
      if (found->second.empty()) waiters_.erase(found);
    }
    reads_.stop_wanting(ticket);
    --fetch.reading;
  }
  kept_bytes_ -= family.bytes;
  if ((kept_of_[id.first] -= family.bytes) == 0) kept_of_.erase(id.first);
}

void Promoter::decide(const FetchId& id, Fetch& fetch) {
  if (fetch.answered) return;
  // Reads end in any order, but only a complete prefix counts.
  while (fetch.whole < fetch.families.size() && fetch.families[fetch.whole].missing == 0)
    ++fetch.whole;
  if (fetch.whole == fetch.limit) answer(id, fetch);
}

void Promoter::answer(const FetchId& id, Fetch& fetch) {
  const std::uint64_t elapsed_us = (clock_.now_ns() - fetch.begun_ns) / 1000;
  answers_.push_back(
      {id.first,
       id.second,
       {fetch.whole, static_cast<std::uint32_t>(fetch.reason), fetch.read_bytes,
        static_cast<std::uint32_t>(std::min<std::uint64_t>(elapsed_us, UINT32_MAX)), 0}});
  stats_.fetches_late += fetch.reason == FetchEnd::kLate;
  stats_.fetch_hits += fetch.whole;
  fetch.answered = true;
  fetch.answered_ms = clock_.now_ms();
  // Several fetches may have the same deadline, to the nanosecond in a test with a stepped clock.
  const auto [begin, end] = deadlines_.equal_range(fetch.deadline_ns);
  deadlines_.erase(
      std::find_if(begin, end, [&](const auto& deadline) { return deadline.second == id; }));
  if (fetch.whole == 0)
    forget(fetches_.find(id));  // an empty fetch keeps no chunk and needs no end
}

void Promoter::forget(std::map<FetchId, Fetch>::iterator found) {
  auto& [id, fetch] = *found;
  for (std::uint32_t number = 0; number < fetch.families.size(); ++number)
    release(id, fetch, number);
  if (!fetch.answered) {
    const auto [begin, end] = deadlines_.equal_range(fetch.deadline_ns);
    const FetchId& number = id;
    deadlines_.erase(
        std::find_if(begin, end, [&](const auto& deadline) { return deadline.second == number; }));
  }
  fetches_.erase(found);
}

void Promoter::miss_deadlines() {
  const std::uint64_t now_ns = clock_.now_ns();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns) {  // mutation: fetch-deadline
    const FetchId id = deadlines_.begin()->second;
    Fetch& fetch = fetches_.at(id);
    // Each source checks whether it is slower than expected; only such a source has missed the
    // deadline.
    if (fetch.reading != 0)
      for (ReadableTier* source : sources_) source->missed_deadline(now_ns);
    cut(id, fetch, fetch.whole, FetchEnd::kLate);
    decide(id, fetch);
  }
}

// A family beyond the cap of all fetches would end each fetch before its first chunk: log the
// remedy.
void Promoter::look_at_sizes() {
  const std::uint64_t family = store_.namespaces().largest_family_bytes();
  if (family <= kept_cap_) return too_large_.clear();
  constexpr std::uint64_t kMib = 1ULL << 20;
  const std::uint64_t enough = (family * protocol::kFetchedShare + kMib - 1) / kMib * kMib;
  std::string why =
      "memory.size: a chunk, with all its shards and KV groups, has " + base::mib(family) +
      ", and a quarter of memory, all that fetches may use at once, has " + base::mib(kept_cap_) +
      ": such chunks are written below memory and never read again. Set memory.size to at least " +
      base::mib(enough) + ", or set chunk_tokens smaller";
  if (why == too_large_) return;
  too_large_ = std::move(why);
  base::log_refusal("fetches", too_large_, base::LogLevel::kWarning, "fetches: " + too_large_);
}

void Promoter::tick(bool slept) {
  miss_deadlines();
  look_at_sizes();
  const std::uint64_t now_ms = clock_.now_ms();
  for (auto next = fetches_.begin(); next != fetches_.end();) {
    const auto fetch = next++;
    // A stopped larderd has not read the ends that engines sent meanwhile, so the minute begins
    // again.
    if (slept) fetch->second.answered_ms = now_ms;
    if (fetch->second.answered && now_ms - fetch->second.answered_ms > protocol::kMaxHoldAgeMs)
      forget(fetch);  // mutation: kept-a-minute
  }
  for (ReadableTier* source : sources_) source->tick();
  stats_.fetches_kept = fetches_.size();
}

}  // namespace larder::tiering
