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
                    std::span<const protocol::BlockHash> hashes,
                    std::span<protocol::Grant> grants) {
  Session& session = sessions_.at(number);
  const Wanted asked =
      wanted(*namespaces_.at(scope.namespace_handle).layout(scope.shard, scope.group));
  // Bounds the search when all slots are held; then "no space".
  std::uint32_t may_examine = kReserveEffort;
  chunks_.spend(hashes.size());
  const Inherited earlier = sessions_.inherited(number);
  protocol::Key key = scope;
  protocol::Key ahead = scope;
  std::size_t asked_for = 0;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    for (; asked_for < std::min(i + kPrefetchAhead, hashes.size()); ++asked_for) {
      ahead.hash = hashes[asked_for];
      index_.prefetch(ahead);
    }
    key.hash = hashes[i];
    grants[i] = reserve_one(number, session, earlier, key, asked, may_examine);
  }
}

Store::Wanted Store::wanted(const protocol::GroupLayout& layout) {
  const std::uint64_t payload = layout.piece_bytes * layout.pieces_per_chunk;
  const std::uint64_t slot_bytes = protocol::slot_bytes(payload, layout.piece_bytes);
  return {{0, static_cast<std::uint32_t>(payload), static_cast<std::uint32_t>(layout.piece_bytes)},
          slot_bytes,
          arena_.size_class(slot_bytes)};
}

protocol::Grant Store::reserve_one(SessionNumber number, Session& session, const Inherited& earlier,
                                   const protocol::Key& key, const Wanted& asked,
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
  const protocol::Grant grant = grant_slot(number, session, key, asked, may_examine);
  stats_.refused_no_space += grant.status != 0;
  return grant;
}

// Returns granted, or no space. REQUIRES: the key is not in the index.
protocol::Grant Store::grant_slot(SessionNumber number, Session& session, const protocol::Key& key,
                                  const Wanted& asked, std::uint32_t& may_examine) {
  const SlotArena::Slot slot = evictor_.take_slot(asked.size_class, may_examine);
  if (slot.number == kNoSlot) return refusal(GrantStatus::kNoSpace);
  IndexWriter::Place place = asked.layout;
  place.offset_bytes = slot.offset_bytes;
  const std::uint64_t generation = index_.grant(slot.number, key, place, number);
  if (generation == 0) {  // both buckets are full: very rare at a load of one half
    arena_.give(slot.number, slot.offset_bytes);
    return refusal(GrantStatus::kNoSpace);
  }
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
  chunks_.touch_order(slot);
  listeners_.used(slot);
}

Restored Store::restore(const PreviousIndex& earlier, std::span<const EarlierName> names,
                        std::span<const SessionNumber> alive) {
  grace_.begin(earlier);
  return Restorer(chunks_, grace_, listeners_, sessions_, removals_).run(names, alive);
}

void Store::end_recovery_grace() {
  grace_.supersede();  // mutation: supersede-settle
  LARDER_POINT(settled);
  grace_.end();
}

void Store::sweep() {
  std::uint32_t may_examine = kReserveEffort;
  if (!grace_.active()) evictor_.go_on_draining(may_examine);
  removals_.free_doomed();
}

void Store::fill(stats::Stats& stats) const {
  chunks_.fill(stats);
  sessions_.fill(stats);
  stats.kept_bytes = readers_.kept_bytes();
}

}  // namespace larder::store
