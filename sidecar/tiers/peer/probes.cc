#include "sidecar/tiers/peer/probes.h"

#include <algorithm>
#include <utility>

#include "sidecar/base/time_units.h"
#include "sidecar/tiers/peer/wire.h"

namespace larder::peer {
namespace {

using base::kNsPerMs;
// Ten segments of 1,400 bytes: TCP sends no more before the first acknowledgement.
constexpr std::size_t kKeysInOneTrip = 512;
static_assert(kKeysInOneTrip * kKeyBytes < 14'000 && kKeysInOneTrip * kFactsBytes < 14'000);

}  // namespace

Probes::Probes(const ClientOptions& options, const base::Clock& clock, Members& members,
               Offers& offers)
    : options_(options), clock_(clock), members_(members), offers_(offers) {}

std::vector<Probes::Group> Probes::groups_of(std::span<const tiers::ChunkKey> keys,
                                             std::size_t most) {
  std::vector<std::vector<tiers::ChunkKey>> of_group;
  std::vector<Group> groups;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::size_t group = 0;
    // LOOK names one namespace. A batch has one or two namespaces, so the linear search is short.
    while (group < of_group.size() &&
           (!(of_group[group].front().namespace_id == keys[i].namespace_id) ||
            of_group[group].size() == most))
      ++group;
    if (group == of_group.size()) {
      of_group.emplace_back();
      groups.emplace_back();
    }
    of_group[group].push_back(keys[i]);
    groups[group].places.push_back(i);
  }
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i].keys = std::make_shared<const std::vector<tiers::ChunkKey>>(std::move(of_group[i]));
  return groups;
}

void Probes::begin(std::uint64_t serial, std::span<const tiers::ChunkKey> keys,
                   std::uint64_t deadline_ns, Done done) {
  const std::uint64_t now_ns = clock_.now_ns();
  Probe probe;
  probe.groups = groups_of(keys, kKeysInOneTrip);
  probe.keys = keys.size();
  probe.found.resize(keys.size());
  // A prompt waits for the probe: a member that does not answer in probe_ms counts as one without
  // the chunks.
  probe.by_ns = std::min(deadline_ns, now_ns + options_.probe_ms * kNsPerMs);
  probe.done = std::move(done);
  const auto entered = probes_.emplace(serial, std::move(probe)).first;
  // All members are asked at once: asked in turn, each slow member would add its time.
  for (Member* member : members_.askable()) {
    const bool both = member->payloads->idle();  // else the question would wait behind bytes
    for (std::size_t group = 0; group < entered->second.groups.size(); ++group)
      ask(entered->second, serial, *member, group,
          both && group % 2 == 1 ? *member->payloads : *member->questions);
  }
  // Without an askable member the answer is a miss at once.
  if (entered->second.waiting == 0) end(entered);
}

void Probes::ask(Probe& probe, std::uint64_t serial, Member& member, std::size_t group,
                 PeerLink& link) {
  const Keys& keys = probe.groups[group].keys;
  net::Request request;
  request.around.before = format_look(*keys, options_.hold_ms);
  request.expect.types = "$";
  // Without an owner: a late reply still tells which chunks the member holds in vain.
  request.then = [this, serial, number = member.number, group, keys](const Status& lost,
                                                                     const net::Reply& reply) {
    on_reply(serial, number, group, keys, lost, reply);
  };
  if (!link.ask(std::move(request)).ok()) return;
  ++probe.waiting;
  ++probe.asked;
}

void Probes::on_reply(std::uint64_t serial, std::uint64_t member, std::size_t group,
                      const Keys& keys, const Status& lost, const net::Reply& reply) {
  const auto at = probes_.find(serial);
  std::vector<std::optional<tiers::ChunkFacts>> chunks;
  if (lost.ok() && reply.kind == net::Reply::Kind::kBulk) {
    Result<std::vector<std::optional<tiers::ChunkFacts>>> parsed =
        parse_look_reply(reply.text, keys->size());
    if (parsed.ok())
      chunks = *std::move(parsed);
    else
      ++malformed_;
  }
  // No probe: its time passed, or a deadline took it back. The member holds the named chunks all
  // the same.
  if (at == probes_.end()) {
    for (std::size_t i = 0; i < chunks.size(); ++i)
      // DONE frees the member's slots now, not after hold_ms.
      if (chunks[i]) done_with(member, (*keys)[i]);
    return;
  }
  Probe& probe = at->second;
  --probe.waiting;
  probe.answered += chunks.empty() ? 0 : 1;
  for (std::size_t i = 0; i < chunks.size(); ++i)
    if (chunks[i]) probe.found[probe.groups[group].places[i]].push_back({member, *chunks[i]});
  if (probe.waiting == 0) end(at);
}

void Probes::cancel(std::uint64_t serial) {
  const auto at = probes_.find(serial);
  if (at == probes_.end()) return;
  at->second.done = nullptr;
  end(at);
}

void Probes::end_late(std::uint64_t now_ns) {
  for (auto at = probes_.begin(); at != probes_.end();) {
    const auto next = std::next(at);
    if (at->second.by_ns <= now_ns) end(at);  // mutation: peer-probe-time
    at = next;
  }
}

std::uint64_t Probes::next_ns() const {
  std::uint64_t next = done_with_.empty() ? UINT64_MAX : 0;
  for (const auto& [serial, probe] : probes_) next = std::min(next, probe.by_ns);
  return next;
}

void Probes::end(std::map<std::uint64_t, Probe>::iterator at) {
  const Probe probe = std::move(at->second);
  probes_.erase(at);
  const std::vector<bool> there = choose(probe);
  // One answer is enough for "not found". Silence of all members is a failure, and may be tried
  // again.
  const bool failed = probe.asked != 0 && probe.answered == 0;
  if (probe.done)
    probe.done(there,
               failed ? Status(Code::kDeadlineExceeded, "no peer answered in time") : Status());
}

// A chunk goes to the member with the fewest bytes to send; the chunks of one prompt thus come from
// several members.
std::vector<bool> Probes::choose(const Probe& probe) {
  const std::uint64_t now_ns = clock_.now_ns(), until_ns = now_ns + options_.hold_ms * kNsPerMs;
  std::vector<bool> there(probe.keys);
  std::vector<tiers::ChunkKey> keys;
  std::map<std::uint64_t, std::uint64_t> load;  // bytes, by member
  for (const Group& group : probe.groups) {
    for (std::size_t i = 0; i < group.places.size(); ++i) {
      const std::size_t place = group.places[i];
      const tiers::ChunkKey& key = (*group.keys)[i];
      const Found* best = nullptr;
      for (const Found& one : probe.found[place]) {
        Member* const member = members_.find(one.member);
        if (member == nullptr) continue;
        // Bytes of earlier reads count: a member that still sends is the slower source.
        load.try_emplace(one.member, member->payloads->bytes());
        if (best == nullptr || load.at(one.member) < load.at(best->member)) best = &one;
      }
      const bool wanted = best != nullptr && probe.done != nullptr;
      for (const Found& one : probe.found[place])
        // Several members may hold the same chunk for this larderd. Every hold but the chosen one
        // ends now.
        if (!wanted || &one != best) done_with(one.member, key);
      if (!wanted) {
        offers_.erase(key);  // an earlier one
        continue;
      }
      load.at(best->member) += best->facts.slot_bytes();
      offers_.insert(key, {best->facts, best->member, until_ns}, now_ns);
      there[place] = true;
      keys.push_back(key);
    }
  }
  if (!keys.empty() && options_.residents) options_.residents->added_all(keys);
  return there;
}

void Probes::flush() {
  // A member that left took its connections along. The end of the last connection ended the holds.
  for (auto& [number, keys] : std::exchange(done_with_, {})) {
    Member* const member = members_.find(number);
    if (member == nullptr) continue;
    for (const Group& group : groups_of(keys, kMostKeys)) {
      net::Request request;
      request.around.before = format_done(*group.keys);
      request.expect.types = "+";
      static_cast<void>(
          member->questions->ask(std::move(request)).ok());  // else the hold ends by its time
    }
  }
}

}  // namespace larder::peer
