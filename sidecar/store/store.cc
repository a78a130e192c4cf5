#include "sidecar/store/store.h"

#include <algorithm>

#include "shim/base/test_point.h"
#include "shim/protocol/checksum.h"

namespace larder::store {

using protocol::SlotState;

Store::Store(const IndexShape& shape, std::byte* index, const std::byte* arena, stats::Stats& stats,
             Eviction eviction)
    : chunks_(shape, index, arena, eviction),
      index_(chunks_.index()),
      table_(chunks_.table()),
      arena_(chunks_.arena()),
      namespaces_(chunks_.namespaces()),
      stats_(stats),
      listeners_(chunks_, stats),
      sessions_(chunks_, stats),
      readers_(chunks_, sessions_),
      evictor_(chunks_, listeners_, readers_, grace_, stats),
      granter_(chunks_, sessions_, evictor_, stats),
      removals_(chunks_, grace_, listeners_, sessions_, readers_, stats),
      families_(chunks_, grace_, listeners_, sessions_, removals_, stats) {}

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
  chunks_.order().enter_new(slot);
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
  chunks_.order().touch(slot);
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
  // Held chunks of the window count as used. The last message may have used up its budget of links.
  begin_uses();  // mutation: sweep-budget
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
