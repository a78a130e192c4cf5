#include "sidecar/tiering/tier_probe.h"

#include <algorithm>
#include <cmath>

#include "sidecar/tiering/chunk_key.h"

namespace larder::tiering {

using protocol::ProbeEnd;
using protocol::SlotState;
using store::SessionNumber;

namespace {
constexpr std::size_t kMaxKeys = std::min<std::size_t>(protocol::kMaxKeysPerProbe, tiers::kMaxProbeKeys);
}  // namespace

TierProbes::TierProbes(TierLink& backend, ReadableTier& shared, std::span<ReadableTier* const> sources,
                       const Promoter& promotions, store::Store& store, stats::Stats& stats, const base::Clock& clock)
    : backend_(backend),
      shared_(shared),
      sources_(sources.begin(), sources.end()),
      promoter_(promotions),
      store_(store),
      stats_(stats),
      clock_(clock) {}

Status TierProbes::probe(SessionNumber session, std::uint32_t request, const protocol::Probe& asked,
                         std::span<const protocol::BlockHash> hashes) {
  const ProbeId id{session, request};
  if (tier_probes_.contains(id)) return {Code::kInvalidArgument, "request " + std::to_string(request) + " runs already"};
  ++stats_.probes;
  Probe probe;
  probe.handle = asked.namespace_handle;
  probe.hashes.assign(hashes.begin(), hashes.end());
  probe.each = (asked.flags & protocol::kProbeEach) != 0;
  probe.begun_ns = clock_.now_ns();
  probe.deadline_ns = probe.begun_ns + std::uint64_t{std::min(asked.deadline_ms, protocol::kMaxProbeMs)} * 1'000'000;
  const auto begin = tier_probes_.lower_bound({session, 0}), end = tier_probes_.upper_bound({session, UINT32_MAX});
  probe.over_bound = std::distance(begin, end) >= protocol::kMaxProbes;
  probe.slow = !shared_.in_time();
  const Entry entered = tier_probes_.emplace(id, std::move(probe)).first;
  deadlines_.emplace(entered->second.deadline_ns, id);
  to_go_through_.push_back(id);
  return {};
}

void TierProbes::end_session(SessionNumber session) {
  for (auto next = tier_probes_.lower_bound({session, 0}); next != tier_probes_.end() && next->first.first == session;)
    forget(next++);
}

bool TierProbes::go_on() {
  const std::uint64_t until = store_.effort() + store::Store::kSliceEffort;
  while (!to_go_through_.empty() && store_.effort() < until) {
    const Entry entry = tier_probes_.find(to_go_through_.front());
    const bool mine = entry != tier_probes_.end() && !entry->second.gone_through;
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
    const std::size_t next = probe.each ? probe.hashes.size() - 1 - done : done;  // mutation: probe-each-right
    if (!add_family(probe, probe.hashes[next])) break;
  }
  return true;
}

// False: the probe ends at this family. A fetch would end there, or the backend may not be asked. A
// probe of each family goes on behind one that is missing.
bool TierProbes::add_family(Probe& probe, const protocol::BlockHash& hash) {
  store_.families().look_at(probe.handle, hash, members_);
  Family family;
  const std::size_t keys_before = probe.keys.size();
  family.reachable = !members_.empty() && std::ranges::all_of(members_, [&](const store::Member& member) {
    return add_member(probe, family, member);
  });
  if (!family.reachable) {
    family = {};
    probe.keys.resize(keys_before);
    if (!probe.each || probe.reason == ProbeEnd::kBound) return false;  // mutation: probe-each-gap
  }
  probe.families.push_back(family);
  return true;
}

bool TierProbes::add_member(Probe& probe, Family& family, const store::Member& member) {
  if (member.state == SlotState::kCommitted) return true;
  const ReadableTier* from = promoter_.coming(member.key);
  if (from == nullptr && member.state != SlotState::kFree) return false;  // an engine writes the chunk, and may give up
  const std::uint64_t bytes = slot_bytes_of(store_, member.key);
  if (bytes == 0) return false;
  const tiers::ChunkKey chunk = chunk_key_of(store_, member.key);
  for (const ReadableTier* source : sources_)
    if (from == nullptr && source != &shared_ && source->in_time() && source->probe(chunk)) from = source;
  if (from != nullptr) {
    family.bytes[from->number()] += bytes;
    return true;
  }
  if (shared_.hides(chunk.namespace_id)) return false;
  if (probe.over_bound || probe.keys.size() >= kMaxKeys) {
    probe.reason = ProbeEnd::kBound;
    return false;
  }
  probe.keys.push_back(chunk);
  ++family.keys;
  family.bytes[shared_.number()] += bytes;
  return true;
}

// False: the backend has too many questions at once.
bool TierProbes::ask(Entry entry) {
  Probe& probe = entry->second;
  if (probe.keys.empty()) {
    answer(entry, probe.reason, nullptr);
    return true;
  }
  const tiers::Ticket ticket = backend_.next_ticket();
  if (probe.slow) {
    const std::uint64_t by_ns = clock_.now_ns() + std::uint64_t{protocol::kMaxProbeMs} * 1'000'000;
    if (asked_for_nobody_ == 0 && backend_.tier().probe(ticket, probe.keys, by_ns).ok()) asked_for_nobody_ = ticket;
    answer(entry, ProbeEnd::kFailed, nullptr);
    return true;
  }
  const Status taken = backend_.tier().probe(ticket, probe.keys, probe.deadline_ns);
  if (taken.ok()) {
    probe.ticket = ticket;
    asked_.emplace(ticket, entry->first);
  } else if (taken.code() != Code::kResourceExhausted) {
    answer(entry, ProbeEnd::kFailed, nullptr);
  }
  return taken.code() != Code::kResourceExhausted;
}

void TierProbes::ask_waiting() {
  while (!to_ask_.empty()) {
    const Entry entry = tier_probes_.find(to_ask_.front());
    to_ask_.pop_front();
    entry->second.waits = false;
    if (ask(entry)) continue;
    entry->second.waits = true;
    return to_ask_.push_front(entry->first);
  }
}

void TierProbes::on_probe(const tiers::Message& message) {
  if (message.ticket == asked_for_nobody_) asked_for_nobody_ = 0;
  if (const auto found = asked_.find(message.ticket); found != asked_.end()) {
    const Entry entry = tier_probes_.find(found->second);
    const bool told = message.status.ok() && message.there.size() == entry->second.keys.size();
    if (told) stats_.probe.record(clock_.now_ns() - entry->second.begun_ns);
    if (told)
      answer(entry, entry->second.reason, &message.there);
    else
      answer(entry, message.status.code() == Code::kDeadlineExceeded ? ProbeEnd::kLate : ProbeEnd::kFailed, nullptr);
  }
  ask_waiting();
}

// `there`: the reply of the backend for each key; null without a reply.
void TierProbes::answer(Entry entry, ProbeEnd reason, const std::vector<bool>* there) {
  const Probe& probe = entry->second;
  Answer told{entry->first.first, entry->first.second, {}, std::nullopt};
  protocol::Probed& probed = told.probed;
  tell_speed(probe.each ? count_each(probe, there, told) : count_prefix(probe, there, probed), probed);
  const std::uint64_t elapsed_us = (clock_.now_ns() - probe.begun_ns) / 1000;
  probed.elapsed_us = static_cast<std::uint32_t>(std::min<std::uint64_t>(elapsed_us, UINT32_MAX));
  probed.reason = static_cast<std::uint32_t>(reason);
  stats_.probes_late += reason == ProbeEnd::kLate;
  stats_.probes_failed += reason == ProbeEnd::kFailed;
  answers_.push_back(told);
  forget(entry);
}

// `first`: the place of the family's keys in the reply.
bool TierProbes::is_there(const Family& family, const std::vector<bool>* there, std::size_t first) {
  if (!family.reachable || (family.keys != 0 && there == nullptr)) return false;
  for (std::uint32_t i = 0; i < family.keys; ++i)
    if (!(*there)[first + i]) return false;
  return true;
}

std::array<std::uint64_t, TierProbes::kMaxSources> TierProbes::count_prefix(const Probe& probe, const std::vector<bool>* there,
                                                                            protocol::Probed& probed) const {
  std::array<std::uint64_t, kMaxSources> bytes{};
  std::size_t next = 0;
  for (const Family& family : probe.families) {
    if (!is_there(family, there, next)) break;
    next += family.keys;
    ++probed.families;
    probed.shared += family.bytes[shared_.number()] != 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += family.bytes[i];
  }
  stats_.probe_hits += probed.families;
  stats_.probe_hits_shared += probed.shared;
  return bytes;
}

std::array<std::uint64_t, TierProbes::kMaxSources> TierProbes::count_each(const Probe& probe, const std::vector<bool>* there,
                                                                          Answer& answer) const {
  std::array<std::uint64_t, kMaxSources> bytes{};
  protocol::ProbedEach each{};
  std::size_t next = 0, hash = probe.hashes.size();
  for (const Family& family : probe.families) {
    --hash;
    const bool found = is_there(family, there, next);
    next += family.keys;
    if (!found) continue;
    each.there[hash / 64] |= std::uint64_t{1} << hash % 64;
    const bool shared = family.bytes[shared_.number()] != 0;
    ++stats_.probe_hits;
    stats_.probe_hits_shared += shared;
    if (answer.probed.families != 0) continue;
    answer.probed.families = static_cast<std::uint32_t>(hash + 1);
    answer.probed.shared = shared;
    bytes = family.bytes;
  }
  answer.each = each;
  return bytes;
}

// Adds the times of all sources, although they read in parallel: the real time must not exceed the
// promise.
void TierProbes::tell_speed(const std::array<std::uint64_t, kMaxSources>& bytes, protocol::Probed& probed) const {
  std::uint64_t all_bytes = 0;
  double seconds = 0;
  for (const ReadableTier* source : sources_) {
    const std::uint64_t from = bytes[source->number()];
    if (from == 0) continue;
    const protocol::ResidencySpeed speed = source->speed();
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
  deadlines_.erase(std::find_if(begin, end, [&](const auto& deadline) { return deadline.second == entry->first; }));
  if (entry->second.ticket != 0) asked_.erase(entry->second.ticket);
  if (entry->second.waits) std::erase(to_ask_, entry->first);
  tier_probes_.erase(entry);
}

void TierProbes::miss_deadlines() {
  const std::uint64_t now_ns = clock_.now_ns();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns)
    answer(tier_probes_.find(deadlines_.begin()->second), ProbeEnd::kLate, nullptr);
}

}  // namespace larder::tiering
