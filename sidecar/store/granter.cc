#include "sidecar/store/granter.h"

#include <algorithm>

#include "shim/protocol/checksum.h"
#include "sidecar/store/store_limits.h"

namespace larder::store {

using protocol::GrantStatus;
using protocol::SlotState;

namespace {
constexpr std::size_t kPrefetchAhead = 8;

protocol::Grant refusal(GrantStatus status) {
  return {static_cast<std::uint32_t>(status), 0, 0, 0};
}
bool has_status(const protocol::Grant& grant, GrantStatus status) {
  return grant.status == static_cast<std::uint32_t>(status);
}
// Whether the chunk was granted or committed before the message.
bool is_known(const protocol::Grant& grant) {
  return has_status(grant, GrantStatus::kPresent) || has_status(grant, GrantStatus::kPending);
}
}  // namespace

Granter::Granter(ChunkTable& chunks, SessionBook& sessions, Evictor& evictor, stats::Stats& stats)
    : chunks_(chunks),
      index_(chunks.index()),
      table_(chunks.table()),
      arena_(chunks.arena()),
      sessions_(sessions),
      evictor_(evictor),
      stats_(stats) {}

void Granter::reserve(SessionNumber number, const protocol::Key& scope,
                      std::span<const protocol::BlockHash> hashes,
                      std::span<protocol::Grant> grants,
                      std::span<const protocol::BlockHash> parents) {
  const Namespace& ns = chunks_.namespaces().at(scope.namespace_handle);
  Request asked = request(number, sessions_.at(number), *ns.layout(scope.shard, scope.group));
  chunks_.order().begin_uses();
  chunks_.spend(hashes.size());
  const SessionBook::Inherited earlier = sessions_.inherited(number);
  protocol::Key key = scope;
  protocol::Key ahead = scope;
  std::size_t asked_for = 0;
  Behind place;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    for (; asked_for < std::min(i + kPrefetchAhead, hashes.size()); ++asked_for) {
      ahead.hash = hashes[asked_for];
      index_.prefetch(ahead);
    }
    if (parents.empty() || parents[i] == protocol::BlockHash{}) {
      place = {};
    } else if (i == 0 || parents[i] != hashes[i - 1] || is_known(grants[i - 1])) {
      key.hash = parents[i];
      place = behind(key, asked);
    }
    key.hash = hashes[i];
    grants[i] = reserve_one(key, earlier, place, asked);
  }
}

Granter::Request Granter::request(SessionNumber number, SessionBook::Session& session,
                                  const protocol::GroupLayout& layout) const {
  const std::uint64_t payload = layout.piece_bytes * layout.pieces_per_chunk;
  const std::uint64_t slot_bytes = protocol::slot_bytes(payload, layout.piece_bytes);
  return {number,
          session,
          {0, static_cast<std::uint32_t>(payload), static_cast<std::uint32_t>(layout.piece_bytes)},
          slot_bytes,
          arena_.size_class(slot_bytes),
          kReserveEffort};
}

// The place behind `parent`, which may be unknown.
Granter::Behind Granter::behind(const protocol::Key& parent, Request& request) {
  chunks_.spend(1);
  const std::uint32_t slot = index_.find(parent);
  Behind place{slot, parent, chunks_.order().use_for_child(slot)};
  count_family(place, request, false);
  return place;
}

// The parent leaves as a family, so the room must come from chunks colder than all of its shards
// and groups. `use`: the store also counts as a use of them. That is needed only where they are the
// coldest chunks, and costs a walk for each.
void Granter::count_family(Behind& place, Request& request, bool use) {
  if (place.stamp == PromptOrder::kAnyStamp) return;
  const protocol::Key& key = place.stored;
  const std::uint32_t parts = chunks_.namespaces().at(key.namespace_handle).spec.part_count();
  if (parts == 1 || parts > request.may_examine) return;
  request.may_examine -= parts;
  find_family(chunks_, key.namespace_handle, key.hash, family_);
  if (use) {
    for (const std::uint32_t member : family_.committed) chunks_.order().use_for_child(member);
    place.stamp = chunks_.order().use_for_child(index_.find(key));
  }
  for (const std::uint32_t member : family_.committed) {
    const std::uint64_t stamp = table_.note(member).used_stamp;
    if (!table_.note(member).pinned &&
        (place.stamp == PromptOrder::kAnyStamp || older(stamp, place.stamp)))
      place.stamp = stamp;
  }
}

// `place` becomes the place of the next chunk of the prompt.
protocol::Grant Granter::reserve_one(const protocol::Key& key,
                                     const SessionBook::Inherited& earlier, Behind& place,
                                     Request& request) {
  if (const std::uint32_t known = index_.find(key); known != kNoSlot) {
    const bool present = index_.state(known) == SlotState::kCommitted;
    ++(present ? stats_.reserve_present : stats_.reserve_pending);
    return refusal(present ? GrantStatus::kPresent : GrantStatus::kPending);
  }
  if (!SessionBook::may_take(request.session, earlier, request.slot_bytes)) {
    ++stats_.refused_cap;
    return refusal(GrantStatus::kRefused);
  }
  const protocol::Grant granted = place.refused
                                      ? refusal(GrantStatus::kNoSpace)  // mutation: tail-alone
                                      : grant(key, place, request);
  if (has_status(granted, GrantStatus::kGranted)) {
    place.parent = granted.slot;
    return granted;
  }
  ++(place.stamp == PromptOrder::kAnyStamp ? stats_.refused_no_space : stats_.refused_own_prompt);
  place.refused = true;
  return granted;
}

// Returns granted, or no space. REQUIRES: the key is not in the index.
protocol::Grant Granter::grant(const protocol::Key& key, Behind& place, Request& request) {
  SlotArena::Slot slot = evictor_.take_slot(request.size_class, request.may_examine, place.stamp);
  if (slot.number == kNoSlot && place.stamp != PromptOrder::kAnyStamp) {
    count_family(place, request, true);
    slot = evictor_.take_slot(request.size_class, request.may_examine, place.stamp);
  }
  if (slot.number == kNoSlot) return refusal(GrantStatus::kNoSpace);
  IndexWriter::Place layout = request.layout;
  layout.offset_bytes = slot.offset_bytes;
  const std::uint64_t generation = index_.grant(slot.number, key, layout, request.number);
  if (generation == 0) {  // both buckets are full: very rare at a load of one half
    arena_.give(slot.number, slot.offset_bytes);
    return refusal(GrantStatus::kNoSpace);
  }
  index_.set_parent(slot.number, place.parent);
  sessions_.take_in(request.session, slot.number);
  chunks_.enter_namespace(slot.number);
  if (const std::uint32_t next = table_.next_free(); next != kNoSlot) index_.prefetch_entry(next);
  return {static_cast<std::uint32_t>(GrantStatus::kGranted), slot.number, generation,
          layout.offset_bytes};
}

protocol::Grant Granter::promote(const protocol::Key& key, std::uint64_t payload_bytes,
                                 std::uint64_t piece_bytes) {
  const NamespaceTable& namespaces = chunks_.namespaces();
  if (!namespaces.is_open(key.namespace_handle))
    return refusal(GrantStatus::kRefused);  // closed since the request
  const protocol::GroupLayout* layout =
      namespaces.at(key.namespace_handle).layout(key.shard, key.group);
  if (layout == nullptr || layout->piece_bytes != piece_bytes ||
      layout->piece_bytes * layout->pieces_per_chunk != payload_bytes)
    return refusal(GrantStatus::kRefused);
  chunks_.spend(1);
  if (const std::uint32_t known = index_.find(key); known != kNoSlot) {
    if (index_.state(known) != SlotState::kCommitted) return refusal(GrantStatus::kPending);
    return {static_cast<std::uint32_t>(GrantStatus::kPresent), known, index_.generation(known),
            index_.offset_bytes(known)};
  }
  Behind alone;
  Request own = request(kOwnSession, sessions_.own(), *layout);
  return grant(key, alone, own);
}

}  // namespace larder::store
