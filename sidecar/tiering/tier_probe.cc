#include "sidecar/tiering/tier_probe.h"

#include <algorithm>
#include <cmath>

#include "sidecar/tiering/chunk_key.h"

namespace larder::tiering {

using protocol::ProbeEnd;
using protocol::SlotState;
using store::SessionNumber;

namespace {
// The smaller of two bounds: of the message to the engine, and of a question to a tier.
constexpr std::size_t kMaxKeys =
    std::min<std::size_t>(protocol::kMaxKeysPerProbe, tiers::kMaxProbeKeys);
}  // namespace

TierProbes::TierProbes(std::span<const SharedTier> shared, std::span<ReadableTier* const> sources,
                       const Promoter& promotions, store::Store& store, stats::Stats& stats,
                       const base::Clock& clock)
    : sources_(sources.begin(), sources.end()),
      promoter_(promotions),
      store_(store),
      stats_(stats),
      clock_(clock) {
  for (const SharedTier& tier : shared) shared_.push_back({tier, 0});
}

Status TierProbes::probe(SessionNumber session, std::uint32_t request, const protocol::Probe& asked,
                         std::span<const protocol::BlockHash> hashes) {
  const ProbeId id{session, request};
  if (tier_probes_.contains(id))
    return {Code::kInvalidArgument, "request " + std::to_string(request) + " runs already"};
  ++stats_.probes;
  Probe probe;
  probe.handle = asked.namespace_handle;
  probe.hashes.assign(hashes.begin(), hashes.end());
  probe.each = (asked.flags & protocol::kProbeEach) != 0;
  probe.begun_ns = clock_.now_ns();
  probe.deadline_ns = probe.begun_ns +
                      std::uint64_t{std::min(asked.deadline_ms, protocol::kMaxProbeMs)} * 1'000'000;
  const auto begin = tier_probes_.lower_bound({session, 0}),
             end = tier_probes_.upper_bound({session, UINT32_MAX});
  // Such a probe still counts what this larderd knows by itself, which costs no network.
  probe.over_bound = std::distance(begin, end) >= protocol::kMaxProbes;
  probe.questions.resize(shared_.size());
  const Entry entered = tier_probes_.emplace(id, std::move(probe)).first;
  deadlines_.emplace(entered->second.deadline_ns, id);
  to_go_through_.push_back(id);
  return {};
}

void TierProbes::end_session(SessionNumber session) {
  for (auto next = tier_probes_.lower_bound({session, 0});
       next != tier_probes_.end() && next->first.first == session;)
    forget(next++);
}

bool TierProbes::go_on() {
  const std::uint64_t until = store_.effort() + store::Store::kSliceEffort;
  while (!to_go_through_.empty() && store_.effort() < until) {
    const Entry entry = tier_probes_.find(to_go_through_.front());
    const bool mine = entry != tier_probes_.end() && !entry->second.gone_through;
    // The probe stays at the front, and goes on with the next slice.
    if (mine && !go_through(entry->second, until)) break;
    to_go_through_.pop_front();
    if (!mine) continue;
    entry->second.gone_through = true;
    if (ask(entry)) continue;
    entry->second.waits = true;
    to_ask_.push_back(entry->first);
  }
  return !to_go_through_.empty();
}

// False: more slices follow.
bool TierProbes::go_through(Probe& probe, std::uint64_t until) {
  while (probe.families.size() < probe.hashes.size()) {
    if (store_.effort() >= until) return false;
    const std::size_t done = probe.families.size();
    // A model with state chunks needs the last state alone, so a probe of each family begins
    // at the end.
    const std::size_t next =
        probe.each ? probe.hashes.size() - 1 - done : done;  // mutation: probe-each-right
    if (!add_family(probe, probe.hashes[next])) break;
  }
  return true;
}

// False: the probe ends at this family. A fetch would end there, or no shared tier may be asked. A
// probe of each family goes on behind one that is missing.
bool TierProbes::add_family(Probe& probe, const protocol::BlockHash& hash) {
  store_.families().look_at(probe.handle, hash, members_);
  Family family;
  const std::size_t keys_before = probe.keys.size();
  family.reachable =
      !members_.empty() && std::ranges::all_of(members_, [&](const store::Member& member) {
        return add_member(probe, family, member);
      });
  if (!family.reachable) {
    // Keys of an incomplete family are not asked about: their answers could not change the count.
    family = {};
    probe.keys.resize(keys_before);
    probe.key_bytes.resize(keys_before);
    if (!probe.each || probe.reason == ProbeEnd::kBound) return false;  // mutation: probe-each-gap
  }
  probe.families.push_back(family);
  return true;
}

// A tier of this larderd alone that has the chunk in time; null without one.
const ReadableTier* TierProbes::own_place_of(const store::Member& member,
                                             const tiers::ChunkKey& chunk) const {
  // A chunk in promotion counts for its source, since a fetch would wait for that read.
  if (const ReadableTier* from = promoter_.coming(member.key); from != nullptr) return from;
  for (const ReadableTier* source : sources_) {
    if (source->shared() || !source->in_time()) continue;
    const std::optional<tiers::ChunkFacts> found = source->probe(chunk);
    if (found && of_layout(store_, member.key, *found)) return source;
  }
  return nullptr;
}

bool TierProbes::add_member(Probe& probe, Family& family, const store::Member& member) {
  if (member.state == SlotState::kCommitted) return true;
  // An engine that writes the chunk may give up.
  if (member.state != SlotState::kFree && promoter_.coming(member.key) == nullptr) return false;
  const std::uint64_t bytes = slot_bytes_of(store_, member.key);
  // No engine has registered the layout yet, so nobody could load the chunk.
  if (bytes == 0) return false;
  const tiers::ChunkKey chunk = chunk_key_of(store_, member.key);
  if (const ReadableTier* from = own_place_of(member, chunk); from != nullptr) {
    family.bytes[from->number()] += bytes;
    return true;
  }
  if (std::ranges::all_of(
          shared_, [&](const Shared& tier) { return tier.source->hides(chunk.namespace_id); }))
    return false;
  if (probe.over_bound || probe.keys.size() >= kMaxKeys) {
    probe.reason = ProbeEnd::kBound;
    return false;
  }
  // Once for each run of keys of one shard and group.
  if (const tiers::ChunkKey* const last = probe.keys.empty() ? nullptr : &probe.keys.back();
      last == nullptr || last->shard != chunk.shard || last->group != chunk.group) {
    const protocol::GroupLayout& layout =
        *store_.namespaces().at(member.key.namespace_handle).layout(chunk.shard, chunk.group);
    for (Shared& tier : shared_)
      tier.link->tier().expect(chunk, layout.piece_bytes * layout.pieces_per_chunk,
                               layout.piece_bytes);
  }
  probe.keys.push_back(chunk);
  probe.key_bytes.push_back(bytes);
  ++family.keys;
  return true;
}

// False: a tier has too many questions at once.
bool TierProbes::ask(Entry entry) {
  Probe& probe = entry->second;
  if (probe.keys.empty()) {
    answer(entry, probe.reason);
    return true;
  }
  bool all = true;
  for (std::size_t tier = 0; tier < shared_.size(); ++tier) {
    Question& question = probe.questions[tier];
    if (question.state == Question::State::kUnasked) question.state = ask_tier(entry, tier);
    all = all && question.state != Question::State::kUnasked;
  }
  answer_if_complete(entry);
  return all;
}

// kUnasked: the tier has no room for the question now.
TierProbes::Question::State TierProbes::ask_tier(const Entry& entry, std::size_t tier) {
  Probe& probe = entry->second;
  Shared& shared = shared_[tier];
  if (shared.source->hides(probe.keys.front().namespace_id))
    return Question::State::kFailed;  // a probe has one namespace
  const tiers::Ticket ticket = shared.link->next_ticket();
  if (!shared.source->in_time()) {
    const std::uint64_t by_ns = clock_.now_ns() + std::uint64_t{protocol::kMaxProbeMs} * 1'000'000;
    // A slow tier hears one question at a time. The answer makes chunks known, and a read of a
    // known chunk measures the speed.
    if (shared.asked_for_nobody == 0 && shared.link->tier().probe(ticket, probe.keys, by_ns).ok())
      shared.asked_for_nobody = ticket;
    return Question::State::kFailed;
  }
  const Status taken = shared.link->tier().probe(ticket, probe.keys, probe.deadline_ns);
  // The tier bounds its questions. ask_waiting() comes again with the next message or tick.
  if (taken.code() == Code::kResourceExhausted) return Question::State::kUnasked;
  if (!taken.ok()) return Question::State::kFailed;
  probe.questions[tier].ticket = ticket;
  asked_.emplace(ticket, Asked{entry->first, tier});
  return Question::State::kAsked;
}

void TierProbes::ask_waiting() {
  while (!to_ask_.empty()) {
    const ProbeId id = to_ask_.front();
    const Entry entry = tier_probes_.find(id);
    to_ask_.pop_front();
    entry->second.waits = false;
    if (ask(entry)) continue;
    entry->second.waits = true;
    // In front again, so later probes do not overtake this one.
    return to_ask_.push_front(id);
  }
}

void TierProbes::on_probe(const tiers::Message& message) {
  for (Shared& tier : shared_)
    if (message.ticket == tier.asked_for_nobody) tier.asked_for_nobody = 0;
  if (const auto found = asked_.find(message.ticket); found != asked_.end()) {
    const Entry entry = tier_probes_.find(found->second.probe);
    const std::size_t tier = found->second.tier;
    Question& question = entry->second.questions[tier];
    asked_.erase(found);
    question.ticket = 0;
    // A wrong number of answers could not be matched with the keys.
    if (message.status.ok() && message.there.size() == entry->second.keys.size()) {
      stats_.probe.record(clock_.now_ns() - entry->second.begun_ns);
      question.state = Question::State::kAnswered;
      question.there = message.there;
      leave_out_other_layouts(entry->second, *shared_[tier].source, question.there);
    } else {
      const bool late = message.status.code() == Code::kDeadlineExceeded;
      question.state = late ? Question::State::kLate : Question::State::kFailed;
    }
    answer_if_complete(entry);
  }
  ask_waiting();
}

// A FETCH would not bring a chunk of another layout of the text. The tier knows the layout of each
// found chunk by now.
void TierProbes::leave_out_other_layouts(const Probe& probe, const ReadableTier& tier,
                                         std::vector<bool>& there) const {
  if (!store_.namespaces().is_open(probe.handle)) return;  // closed meanwhile
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (!there[i]) continue;
    const tiers::ChunkKey& key = probe.keys[i];
    const std::optional<tiers::ChunkFacts> found = tier.probe(key);
    if (found && !of_layout(store_, {key.hash, probe.handle, key.shard, key.group}, *found))
      there[i] = false;
  }
}

// Answers once no tier is to be asked or waited for. One tier that answered is enough for the
// reason of the probe itself.
void TierProbes::answer_if_complete(Entry entry) {
  using State = Question::State;
  const std::vector<Question>& questions = entry->second.questions;
  const auto any = [&](State state) {
    return std::ranges::any_of(questions, [state](const Question& q) { return q.state == state; });
  };
  if (any(State::kUnasked) || any(State::kAsked)) return;
  const ProbeEnd without = any(State::kLate) ? ProbeEnd::kLate : ProbeEnd::kFailed;
  answer(entry, any(State::kAnswered) ? entry->second.reason : without);
}

void TierProbes::answer(Entry entry, ProbeEnd reason) {
  const Probe& probe = entry->second;
  Answer told{entry->first.first, entry->first.second, {}, std::nullopt};
  protocol::Probed& probed = told.probed;
  tell_speed(probe.each ? count_each(probe, told) : count_prefix(probe, probed), probed);
  const std::uint64_t elapsed_us = (clock_.now_ns() - probe.begun_ns) / 1000;
  probed.elapsed_us = static_cast<std::uint32_t>(std::min<std::uint64_t>(elapsed_us, UINT32_MAX));
  probed.reason = static_cast<std::uint32_t>(reason);
  stats_.probes_late += reason == ProbeEnd::kLate;
  stats_.probes_failed += reason == ProbeEnd::kFailed;
  answers_.push_back(told);
  forget(entry);
}

const ReadableTier* TierProbes::place_of(const Probe& probe, std::size_t key) const {
  for (std::size_t tier = 0; tier < shared_.size(); ++tier)
    if (key < probe.questions[tier].there.size() && probe.questions[tier].there[key])
      return shared_[tier].source;
  return nullptr;
}

std::optional<TierProbes::Bytes> TierProbes::bytes_of(const Probe& probe, const Family& family,
                                                      std::size_t first) const {
  if (!family.reachable) return std::nullopt;
  Bytes bytes = family.bytes;
  for (std::size_t key = first; key < first + family.keys; ++key) {
    const ReadableTier* place = place_of(probe, key);
    // One missing member makes the family useless to the engine.
    if (place == nullptr) return std::nullopt;
    bytes[place->number()] += probe.key_bytes[key];
  }
  return bytes;
}

bool TierProbes::any_shared(const Bytes& bytes) const {
  return std::ranges::any_of(shared_,
                             [&](const Shared& tier) { return bytes[tier.source->number()] != 0; });
}

TierProbes::Bytes TierProbes::count_prefix(const Probe& probe, protocol::Probed& probed) const {
  Bytes all{};
  std::size_t next = 0;
  for (const Family& family : probe.families) {
    const std::optional<Bytes> bytes = bytes_of(probe, family, next);
    // The engine loads a prefix: a family behind a gap does not count.
    if (!bytes) break;
    next += family.keys;
    ++probed.families;
    probed.shared += any_shared(*bytes);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += (*bytes)[i];
  }
  stats_.probe_hits += probed.families;
  stats_.probe_hits_shared += probed.shared;
  return all;
}

TierProbes::Bytes TierProbes::count_each(const Probe& probe, Answer& answer) const {
  Bytes last{};
  protocol::ProbedEach each{};
  std::size_t next = 0, hash = probe.hashes.size();
  for (const Family& family : probe.families) {
    --hash;
    const std::optional<Bytes> bytes = bytes_of(probe, family, next);
    next += family.keys;
    if (!bytes) continue;
    each.there[hash / 64] |= std::uint64_t{1} << hash % 64;
    const bool shared = any_shared(*bytes);
    ++stats_.probe_hits;
    stats_.probe_hits_shared += shared;
    // The engine would fetch the first family found from the end, so speed and bytes are of this
    // family.
    if (answer.probed.families != 0) continue;
    answer.probed.families = static_cast<std::uint32_t>(hash + 1);
    answer.probed.shared = shared;
    last = *bytes;
  }
  answer.each = each;
  return last;
}

// Adds the times of all sources, although they read in parallel: the real time must not exceed the
// promise.
void TierProbes::tell_speed(const Bytes& bytes, protocol::Probed& probed) const {
  std::uint64_t all_bytes = 0;
  double seconds = 0;
  for (const ReadableTier* source : sources_) {
    const std::uint64_t from = bytes[source->number()];
    if (from == 0) continue;
    const protocol::ResidencySpeed speed = source->speed();
    // A rate of 0 tells the engine not to wait for the chunks.
    if (!speed.serving || speed.read_bytes_per_s == 0) return;
    all_bytes += from;
    probed.read_latency_ns += speed.read_latency_ns;
    seconds += static_cast<double>(from) / static_cast<double>(speed.read_bytes_per_s);
  }
  if (all_bytes == 0) return;
  const double rate = std::round(static_cast<double>(all_bytes) / seconds);
  probed.read_bytes_per_s = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rate));
}

void TierProbes::forget(Entry entry) {
  const auto [begin, end] = deadlines_.equal_range(entry->second.deadline_ns);
  deadlines_.erase(std::find_if(
      begin, end, [&](const auto& deadline) { return deadline.second == entry->first; }));
  for (const Question& question : entry->second.questions) asked_.erase(question.ticket);
  if (entry->second.waits) std::erase(to_ask_, entry->first);
  tier_probes_.erase(entry);
}

void TierProbes::miss_deadlines() {
  const std::uint64_t now_ns = clock_.now_ns();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns)
    answer(tier_probes_.find(deadlines_.begin()->second), ProbeEnd::kLate);
}

}  // namespace larder::tiering
