#include "sidecar/store/store.h"

#include <algorithm>

#include "shim/base/test_point.h"
#include "shim/protocol/checksum.h"

namespace larder::store {

using protocol::GrantStatus;
using protocol::SlotState;

namespace {
constexpr std::size_t kPrefetchAhead = 8;

protocol::Grant refusal(GrantStatus status) {
  return {static_cast<std::uint32_t>(status), 0, 0, 0};
}
// The chunk was granted or committed before.
bool is_known(const protocol::Grant& grant) {
  return grant.status == static_cast<std::uint32_t>(GrantStatus::kPresent) ||
         grant.status == static_cast<std::uint32_t>(GrantStatus::kPending);
}
}  // namespace

Store::Store(const IndexShape& shape, std::byte* index, const std::byte* arena, stats::Stats& stats)
    : chunks_(shape, index, arena),
      index_(chunks_.index()),
      table_(chunks_.table()),
      arena_(chunks_.arena()),
      namespaces_(chunks_.namespaces()),
      stats_(stats),
      listeners_(chunks_, stats),
      sessions_(chunks_, stats),
      readers_(chunks_, sessions_),
      evictor_(chunks_, listeners_, readers_, grace_, stats),
      removals_(chunks_, grace_, listeners_, sessions_, readers_, stats),
      families_(chunks_, grace_, listeners_, sessions_, removals_, stats) {}

void Store::reserve(SessionNumber number, const protocol::Key& scope,
                    std::span<const protocol::BlockHash> hashes, std::span<protocol::Grant> grants,
                    std::span<const protocol::BlockHash> parents) {
  Session& session = sessions_.at(number);
  const Wanted asked =
      wanted(*namespaces_.at(scope.namespace_handle).layout(scope.shard, scope.group));
  std::uint32_t may_examine =
      kReserveEffort;  // bounds the search when all slots are held; then "no space"
  chunks_.begin_uses();
  chunks_.spend(hashes.size());
  const Inherited earlier = sessions_.inherited(number);
  protocol::Key key = scope;
  protocol::Key ahead = scope;
  std::size_t asked_for = 0;
  Behind last;  // the chunk after hashes[i - 1]
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    for (; asked_for < std::min(i + kPrefetchAhead, hashes.size()); ++asked_for) {
      ahead.hash = hashes[asked_for];
      index_.prefetch(ahead);
    }
    if (parents.empty() || parents[i] == protocol::BlockHash{}) {
      last = {};
    } else if (i == 0 || parents[i] != hashes[i - 1] || is_known(grants[i - 1])) {
      key.hash = parents[i];
      last = behind(key, may_examine);
    }
    key.hash = hashes[i];
    grants[i] = reserve_one(number, session, earlier, key, asked, last, may_examine);
  }
}

// The place of a chunk behind `parent`, which is perhaps stored.
Store::Behind Store::behind(const protocol::Key& parent, std::uint32_t& may_examine) {
  chunks_.spend(1);
  const std::uint32_t slot = index_.find(parent);
  Behind place{slot, slot, chunks_.use_for_child(slot)};
  take_family(place, may_examine, false);
  return place;
}

// The parent leaves as a family, so its other shards and groups count as well. `use`: also counts the
// store as a use of them. Costs much, and is needed only when they are the coldest chunks.
void Store::take_family(Behind& place, std::uint32_t& may_examine, bool use) {
  if (place.stamp == ChunkTable::kAnyStamp) return;
  const protocol::Key key = index_.key(place.stored);
  const std::uint32_t parts = namespaces_.at(key.namespace_handle).spec.part_count();
  if (parts == 1 || parts > may_examine) return;
  may_examine -= parts;
  find_family(chunks_, key.namespace_handle, key.hash, family_, place.stored);
  if (use) {
    place.stamp = ChunkTable::kAnyStamp;
    for (const std::uint32_t member : family_.committed) chunks_.use_for_child(member);
  }
  for (const std::uint32_t member : family_.committed)
    if (!table_.note(member).pinned)
      place.stamp = std::min<std::uint64_t>(place.stamp, table_.note(member).used_stamp);
}

Store::Wanted Store::wanted(const protocol::GroupLayout& layout) {
  const std::uint64_t payload = layout.piece_bytes * layout.pieces_per_chunk;
  const std::uint64_t slot_bytes = protocol::slot_bytes(payload, layout.piece_bytes);
  return {{0, static_cast<std::uint32_t>(payload), static_cast<std::uint32_t>(layout.piece_bytes)},
          slot_bytes,
          arena_.size_class(slot_bytes)};
}

// `behind`: the place of this chunk; becomes the place of the next chunk of the prompt.
protocol::Grant Store::reserve_one(SessionNumber number, Session& session, const Inherited& earlier,
                                   const protocol::Key& key, const Wanted& asked, Behind& behind,
                                   std::uint32_t& may_examine) {
  if (const std::uint32_t known = index_.find(key); known != kNoSlot) {
    const bool present = index_.state(known) == SlotState::kCommitted;
    ++(present ? stats_.reserve_present : stats_.reserve_pending);
    return refusal(present ? GrantStatus::kPresent : GrantStatus::kPending);
  }
  if (!SessionBook::may_take(session, earlier, asked.slot_bytes)) {
    ++stats_.refused_cap;
    return refusal(GrantStatus::kRefused);
  }
  const protocol::Grant grant = behind.refused
                                    ? refusal(GrantStatus::kNoSpace)  // mutation: tail-alone
                                    : grant_slot(number, session, key, asked, behind, may_examine);
  if (grant.status == 0) {
    behind.parent = grant.slot;
    return grant;
  }
  ++(behind.stamp == ChunkTable::kAnyStamp ? stats_.refused_no_space : stats_.refused_own_prompt);
  behind.refused = true;
  return grant;
}

// Returns granted, or no space. REQUIRES: the key is not in the index.
protocol::Grant Store::grant_slot(SessionNumber number, Session& session, const protocol::Key& key,
                                  const Wanted& asked, Behind& behind, std::uint32_t& may_examine) {
  SlotArena::Slot slot = evictor_.take_slot(asked.size_class, may_examine, behind.stamp);
  if (slot.number == kNoSlot && behind.stamp != ChunkTable::kAnyStamp) {
    take_family(behind, may_examine, true);
    slot = evictor_.take_slot(asked.size_class, may_examine, behind.stamp);
  }
  if (slot.number == kNoSlot) return refusal(GrantStatus::kNoSpace);
  IndexWriter::Place place = asked.layout;
  place.offset_bytes = slot.offset_bytes;
  const std::uint64_t generation = index_.grant(slot.number, key, place, number);
  if (generation == 0) {  // both buckets are full: very rare at a load of one half
    arena_.give(slot.number, slot.offset_bytes);
    return refusal(GrantStatus::kNoSpace);
  }
  index_.set_parent(slot.number, behind.parent);
  sessions_.take_in(session, slot.number);
  chunks_.enter_namespace(slot.number);
  if (const std::uint32_t next = table_.next_free(); next != kNoSlot) index_.prefetch_entry(next);
  return {static_cast<std::uint32_t>(GrantStatus::kGranted), slot.number, generation,
          place.offset_bytes};
}

void Store::commit(SessionNumber number, const protocol::CommitRecord& record) {
  Session* session = sessions_.owner(number, record.slot, record.generation);
  if (session == nullptr || index_.state(record.slot) == SlotState::kQuarantined) {
    ++stats_.refused_commit;
    if (session == nullptr) return;
    sessions_.take_out(*session, session->quarantined, record.slot);  // mutation: quarantine-ends
    chunks_.free_slot(record.slot);
    return;
  }
  enter_committed(*session, record.slot, record.root);
  ++stats_.chunks_committed;
  table_.note(record.slot).written = 0;
  listeners_.committed(record.slot);
}

void Store::enter_committed(Session& session, std::uint32_t slot, std::uint64_t root,
                            std::uint32_t guest) {
  sessions_.take_out(session, session.granted, slot);
  index_.commit(slot, root);
  table_.note(slot).guest = guest & 3;
  chunks_.enter_order(slot);
  chunks_.count_in(slot);
  namespaces_.touch(index_.key(slot).namespace_handle);
}

void Store::disown(SessionNumber number, const protocol::SlotRef& ref) {
  Session* session = sessions_.owner(number, ref.slot, ref.generation);
  if (session == nullptr) return;
  ++stats_.disowned;
  sessions_.give_back(*session, ref.slot);
}

void Store::touch(std::uint32_t slot, std::uint64_t generation) {
  if (slot >= table_.end() || index_.state(slot) != SlotState::kCommitted ||
      index_.generation(slot) != generation)
    return;
  chunks_.spend(1);
  chunks_.touch_order(slot);
  listeners_.used(slot);
}

Restored Store::restore(const PreviousIndex& earlier, std::span<const EarlierName> names,
                        std::span<const SessionNumber> alive) {
  grace_.begin(earlier);
  return Restorer(chunks_, grace_, listeners_, sessions_, removals_).run(names, alive);
}

void Store::settled() {
  grace_.supersede();  // mutation: supersede-settle
  LARDER_POINT(settled);
  grace_.settle();
}

void Store::sweep() {
  std::uint32_t may_examine = kReserveEffort;
  if (!grace_.settling()) evictor_.go_on_draining(may_examine);
  removals_.free_doomed();
}

void Store::fill(stats::Stats& stats) const {
  chunks_.fill(stats);
  sessions_.fill(stats);
  stats.kept_bytes = readers_.kept_bytes();
}

}  // namespace larder::store
