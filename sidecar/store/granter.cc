#include "sidecar/store/granter.h"

#include <algorithm>

#include "shim/protocol/checksum.h"
#include "sidecar/store/store_limits.h"

namespace larder::store {

using protocol::GrantStatus;
using protocol::SlotState;

namespace {
// The most look-ups of families behind chunks that another engine has not stored yet, a message.
constexpr std::uint32_t kMostClimb = kReserveEffort / 8;

protocol::Grant refusal(GrantStatus status) {
  return {static_cast<std::uint32_t>(status), 0, 0, 0};
}
bool has_status(const protocol::Grant& grant, GrantStatus status) {
  return grant.status == static_cast<std::uint32_t>(status);
}
// Prefetches the lines that grants of the next free slots write.
void prefetch_free(const IndexWriter& index, const SlotTable& table, std::size_t slots) {
  for (std::uint32_t slot = table.next_free(); slot != kNoSlot && slots > 0; --slots) {
    index.prefetch_entry(slot);
    slot = table.next(slot);
  }
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
    if (i % kPrefetchAhead == 0) {  // a group at a time, so that the misses overlap
      for (; asked_for < std::min(i + 2 * kPrefetchAhead, hashes.size()); ++asked_for) {
        ahead.hash = hashes[asked_for];
        index_.prefetch(ahead);
      }
      prefetch_free(index_, table_, std::min(kPrefetchAhead, hashes.size() - i));
    }
    if (parents.empty() || parents[i] == protocol::BlockHash{}) {
      place = {};
    } else if (i == 0 || parents[i] != hashes[i - 1] || is_known(grants[i - 1])) {
      key.hash = parents[i];
      place = behind(key, asked);
    }
    key.hash = hashes[i];
    reserve_one(key, earlier, place, asked, grants[i]);
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
          kReserveEffort,
          kReserveEffort,
          kMostClimb};
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
  if (place.parent == kNoSlot ||
      chunks_.namespaces().at(place.stored.namespace_handle).spec.part_count() == 1)
    return;
  list_members(place.stored, request);
  if (use)
    for (const std::uint32_t member : members_) chunks_.order().use_for_child(member);
  if (!members_.empty()) place.stamp = PromptOrder::kAnyStamp;
  for (const std::uint32_t member : members_) {
    const std::uint64_t stamp = chunks_.order().stamp_for_child(member);
    if (place.stamp == PromptOrder::kAnyStamp ||
        (stamp != PromptOrder::kAnyStamp && older(stamp, place.stamp)))
      place.stamp = stamp;
  }
}

// Lists the chunks of the family in members_. Where one is missing, another engine has not stored
// it yet, and the chunks of the families above follow, up to a whole one.
void Granter::list_members(protocol::Key key, Request& request) {
  members_.clear();
  const std::uint32_t parts = chunks_.namespaces().at(key.namespace_handle).spec.part_count();
  for (std::uint32_t slot = index_.find(key); slot != kNoSlot && parts <= request.may_list;
       slot = index_.parent(slot)) {
    request.may_list -= parts;  // mutation: list-budget
    find_family(chunks_, key.namespace_handle, index_.key(slot).hash, family_);
    members_.insert(members_.end(), family_.committed.begin(), family_.committed.end());
    members_.insert(members_.end(), family_.granted.begin(), family_.granted.end());
    const std::size_t found = family_.committed.size() + family_.granted.size();
    if (found == family_.expected) break;  // mutation: family-climb
    if (parts > request.may_climb) break;
    request.may_climb -= parts;
  }
}

// `place` becomes the place of the next chunk of the prompt.
void Granter::reserve_one(const protocol::Key& key, const SessionBook::Inherited& earlier,
                          Behind& place, Request& request, protocol::Grant& granted) {
  if (const std::uint32_t known = index_.find(key); known != kNoSlot) {
    const bool present = index_.state(known) == SlotState::kCommitted;
    ++(present ? stats_.reserve_present : stats_.reserve_pending);
    granted = refusal(present ? GrantStatus::kPresent : GrantStatus::kPending);
    return;
  }
  if (!SessionBook::may_take(request.session, earlier, request.slot_bytes)) {
    ++stats_.refused_cap;
    granted = refusal(GrantStatus::kRefused);
    return;
  }
  // Behind a chunk without room the search would fail again (fails()), after a walk for each chunk.
  if (place.refused == nullptr && grant(key, place, request, granted)) return;
  ++(stats_.*(place.refused != nullptr ? place.refused : &stats::Stats::refused_no_space));
  granted = refusal(GrantStatus::kNoSpace);
}

// Whether an earlier search of the message shows that there is no room for the place.
bool Granter::fails(const Behind& place, const Request& request) const {
  return request.failed != nullptr && place.stamp != PromptOrder::kAnyStamp &&
         !older(request.failed_stamp, place.stamp);
}

// A slot for the place. Without room, place.refused is set to the counter of the refusal.
SlotArena::Slot Granter::find_room(Behind& place, Request& request) {
  for (const bool use : {false, true}) {
    const std::uint64_t stamp = place.stamp;
    if (use) count_family(place, request, true);
    if (use && place.stamp == stamp) break;  // the same search would fail again
    if (fails(place, request)) continue;     // mutation: search-once
    const SlotArena::Slot slot =
        evictor_.take_slot(request.size_class, request.may_examine, place.stamp);
    if (slot.number != kNoSlot) return slot;
    request.failed = evictor_.kept_warmer() ? &stats::Stats::refused_own_prompt
                                            : &stats::Stats::refused_no_space;
    request.failed_stamp = place.stamp;
    if (place.stamp == PromptOrder::kAnyStamp) break;
  }
  place.refused = request.failed;
  return {kNoSlot, 0};
}

// False: no space. The grant is written where the caller needs it: a copy right behind the stores
// of its fields waits until they have left the processor's store buffer. REQUIRES: the key is not
// in the index.
bool Granter::grant(const protocol::Key& key, Behind& place, Request& request,
                    protocol::Grant& granted) {
  const SlotArena::Slot slot = find_room(place, request);
  if (slot.number == kNoSlot) return false;
  IndexWriter::Place layout = request.layout;
  layout.offset_bytes = slot.offset_bytes;
  const std::uint64_t generation = index_.grant(slot.number, key, layout, request.number);
  // Both buckets are full: very rare at a load of one half, and later keys may have room.
  if (generation == 0) {
    arena_.give(slot.number, slot.offset_bytes);
    return false;
  }
  index_.set_parent(slot.number, place.parent);
  sessions_.take_in(request.session, slot.number);
  chunks_.enter_namespace(slot.number);
  place.parent = slot.number;
  granted = {static_cast<std::uint32_t>(GrantStatus::kGranted), slot.number, generation,
             layout.offset_bytes};
  return true;
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
  protocol::Grant granted;
  return grant(key, alone, own, granted) ? granted : refusal(GrantStatus::kNoSpace);
}

}  // namespace larder::store
