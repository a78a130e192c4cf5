#include "sidecar/store/restorer.h"

#include <algorithm>
#include <ranges>

#include "shim/base/test_point.h"
#include "shim/protocol/checksum.h"

namespace larder::store {

using protocol::SlotState;

namespace {

bool may_be_a_slot(const protocol::EntryView& view) {
  return view.piece_bytes != 0 && view.piece_bytes <= protocol::kMaxPieceBytes &&
         view.payload_bytes >= view.piece_bytes && view.payload_bytes <= protocol::kMaxPayloadBytes;
}

}  // namespace

Restorer::Restorer(ChunkTable& chunks, const RecoveryGrace& grace, TierListeners& listeners,
                   SessionBook& sessions, Removals& removals)
    : chunks_(chunks),
      index_(chunks.index()),
      table_(chunks.table()),
      arena_(chunks.arena()),
      namespaces_(chunks.namespaces()),
      grace_(grace),
      listeners_(listeners),
      sessions_(sessions),
      removals_(removals) {}

Restored Restorer::run(std::span<const EarlierName> names, std::span<const SessionNumber> alive) {
  const PreviousIndex& earlier = grace_.earlier();
  for (const SessionNumber session : alive) sessions_.expect(session);
  // A device of another tier may still write into slots of larderd: keep their session, so that
  // they are quarantined.
  if (earlier.tier() == 0 || earlier.tier() != index_.tier())
    sessions_.expect(kOwnSession);  // mutation: other-tier-busy
  Restored restored;
  const Handles handles = restore_namespaces(names, restored);
  std::vector<Found> found = find_kept(handles, restored);
  keep_apart(found, restored);
  LARDER_POINT(restore_chosen);
  restore_places(found, restored);
  std::sort(found.begin(), found.end(), [this](const Found& a, const Found& b) {
    return index_.generation(a.slot) < index_.generation(b.slot);
  });
  for (const Found& one : found) enter(one, restored);
  restore_order(found);
  leave_restored();
  if (sessions_.contains(kOwnSession)) restored.own = sessions_.at(kOwnSession).quarantined.count;
  // 0 tells the next larderd that more than one tier may still write.
  if (restored.own != 0) index_.set_tier(0);  // mutation: two-tiers-busy
  return restored;
}

// Opens the namespaces with chunks in the earlier index.
Restorer::Handles Restorer::restore_namespaces(std::span<const EarlierName> names,
                                               Restored& restored) {
  std::vector<std::uint32_t> used(
      protocol::kMaxNamespaces,
      protocol::kNoNamespace);  // by place: at most one handle of a place is in use
  for (std::uint64_t slot = 0; slot < grace_.earlier().entry_count(); ++slot) {
    const PreviousIndex::Entry entry = grace_.earlier().read(static_cast<std::uint32_t>(slot));
    const std::uint32_t handle = entry.view.key.namespace_handle;
    if (entry.state == SlotState::kCommitted &&
        grace_.earlier().namespace_id(handle) != protocol::NamespaceId{})
      used[protocol::namespace_place(handle)] = handle;
  }
  Handles handles;
  for (const std::uint32_t handle : used)
    if (handle != protocol::kNoNamespace) restore_namespace(handle, names, handles, restored);
  return handles;
}

// Opens one namespace. Each shard may have a record with its layout. Before protocol 1.6 an id had
// one namespace, and records had no handle.
void Restorer::restore_namespace(std::uint32_t earlier, std::span<const EarlierName> names,
                                 Handles& handles, Restored& restored) {
  const protocol::NamespaceId id = grace_.earlier().namespace_id(earlier);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const EarlierName& name = names[i];
    if (name.spec.id != id || name.handle.value_or(earlier) != earlier) continue;
    if (const auto known = handles.find(earlier); known != handles.end()) {
      if (namespaces_.add_layout(known->second, name.spec, arena_.arena_bytes()).ok())
        restored.names.emplace_back(i, known->second);
      continue;
    }
    const Result<std::uint32_t> made = namespaces_.make(name.spec, arena_.arena_bytes());
    if (!made.ok()) continue;
    namespaces_.join(*made);
    index_.set_namespace(*made, id);
    handles.emplace(earlier, *made);
    restored.names.emplace_back(i, *made);
  }
}

// Leaves all namespaces, which no session has open yet. Namespaces without chunks close; the others
// keep the order of use of their chunks.
void Restorer::leave_restored() {
  std::vector<std::uint32_t> handles = namespaces_.handles();
  std::ranges::sort(handles, {},
                    [this](std::uint32_t handle) { return namespaces_.at(handle).used; });
  for (const std::uint32_t handle : handles) chunks_.leave_namespace(handle);
}

// Copies the entries to keep into this index, not visible yet. Returns them in the order of place.
std::vector<Restorer::Found> Restorer::find_kept(const Handles& handles, Restored& restored) {
  std::vector<Found> found;
  const std::uint64_t count =
      std::min<std::uint64_t>(grace_.earlier().entry_count(), index_.entry_count());
  for (std::uint64_t slot = 0; slot < grace_.earlier().entry_count(); ++slot) {
    PreviousIndex::Entry entry = grace_.earlier().read(static_cast<std::uint32_t>(slot));
    const SlotState state = slot < count ? kept_as(entry, handles) : SlotState::kFree;
    // Slots beyond the count of this index have no place, for example after a change to a smaller
    // memory.size.
    restored.dropped += entry.state == SlotState::kCommitted && state != SlotState::kCommitted;
    if (state == SlotState::kFree) continue;
    if (state != SlotState::kCommitted) entry.view.key.namespace_handle = protocol::kNoNamespace;
    index_.copy(entry.view, entry.session);
    const std::uint64_t bytes =
        protocol::slot_bytes(entry.view.payload_bytes, entry.view.piece_bytes);
    found.push_back({static_cast<std::uint32_t>(slot),
                     static_cast<std::uint32_t>(entry.view.offset_bytes / kPageBytes),
                     static_cast<std::uint32_t>(bytes / kPageBytes), state});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.start < b.start; });
  return found;
}

// The state of an entry of the earlier index in this store; kFree drops the entry. A committed
// entry gets the handle of this index.
SlotState Restorer::kept_as(PreviousIndex::Entry& entry, const Handles& handles) const {
  protocol::EntryView& view = entry.view;
  if (view.generation == 0 || view.generation > grace_.earlier().last_generation() ||
      !may_be_a_slot(view))
    return SlotState::kFree;
  const std::uint64_t bytes = protocol::slot_bytes(view.payload_bytes, view.piece_bytes);
  const std::uint64_t end_bytes = static_cast<std::uint64_t>(arena_.map().end()) * kPageBytes;
  if (view.offset_bytes > end_bytes ||
      bytes > end_bytes - view.offset_bytes)  // mutation: restore-bounds
    return SlotState::kFree;
  switch (entry.state) {
    case SlotState::kGranted:
    case SlotState::kQuarantined:  // its writer may still write, unless it has surely stopped
      return sessions_.contains(entry.session)
                 ? SlotState::kQuarantined  // mutation: restart-grants
                 : SlotState::kFree;        // mutation: restart-grants-dead
    case SlotState::kDying:                 // taken out of sight, and perhaps still read
      return view.record == protocol::record_checksum(view) ? SlotState::kDying : SlotState::kFree;
    case SlotState::kCommitted: break;
    default: return SlotState::kFree;
  }
  if (view.record != protocol::record_checksum(view))
    return SlotState::kFree;  // mutation: restore-checksum
  const auto handle = handles.find(view.key.namespace_handle);
  // The namespace is unknown here, but an engine may still read the chunk through the earlier
  // index.
  if (handle == handles.end()) return SlotState::kDying;  // mutation: settle-not-carried
  view.key.namespace_handle = handle->second;
  const protocol::GroupLayout* layout =
      namespaces_.at(handle->second).layout(view.key.shard, view.key.group);
  const bool fits = layout != nullptr && layout->piece_bytes == view.piece_bytes &&
                    layout->piece_bytes * layout->pieces_per_chunk == view.payload_bytes;
  return fits ? SlotState::kCommitted : SlotState::kDying;  // mutation: restore-layout
}

// Drops one of two overlapping slots. A committed slot wins: the reply to the other grant was never
// sent, because larderd died before all fields were written. Of two other slots the older one wins,
// for the same reason.
void Restorer::keep_apart(std::vector<Found>& found, Restored& restored) {
  const auto goes_before = [this](const Found& a, const Found& b) {
    if (a.state != b.state)
      return a.state == SlotState::kCommitted ||
             (a.state == SlotState::kQuarantined && b.state == SlotState::kDying);
    return index_.generation(a.slot) < index_.generation(b.slot);
  };
  std::size_t kept = 0;
  for (const Found& one : found) {
    const bool clear = kept == 0 || found[kept - 1].start + found[kept - 1].pages <=
                                        one.start;  // mutation: restore-overlap
    const bool wins = !clear && goes_before(one, found[kept - 1]);
    const Found& loser = wins ? found[kept - 1] : one;
    restored.dropped += !clear && loser.state == SlotState::kCommitted;
    if (wins) --kept;
    if (clear || wins) found[kept++] = one;
  }
  found.resize(kept);
}

// Rebuilds the slot numbers and the extents.
void Restorer::restore_places(std::vector<Found>& found, Restored& restored) {
  std::vector<bool> taken(index_.entry_count());
  std::uint32_t end = 0;
  std::vector<SlotArena::Placed> places;
  for (const Found& one : found) {
    taken[one.slot] = true;
    end = std::max(end, one.slot + 1);
    places.push_back({one.slot, one.start, one.pages});
  }
  std::size_t done = 0;
  while (done < places.size()) {
    const std::size_t adopted = arena_.adopt(std::span(places).subspan(done));
    if (adopted == 0) break;
    done += adopted;
  }
  for (std::size_t i = done; i < found.size();
       ++i) {  // more extents than an index can have: damage
    taken[found[i].slot] = false;
    restored.dropped += found[i].state == SlotState::kCommitted;
  }
  found.resize(done);
  table_.restore(end, [&](std::uint32_t slot) { return taken[slot]; });
}

// Enters the committed slots in the order of eviction. The order of granting is the best guess at
// the order of use. A chunk that was granted late is a use of its ancestors, too: the newest chunk
// and its ancestors leave last, its root last of all. The links are unchecked words of the earlier
// index; IndexWriter::parent() accepts only an older grant, so each walk ends. `found`: the oldest
// first.
void Restorer::restore_order(std::span<const Found> found) {
  const PreviousIndex& earlier = grace_.earlier();
  for (const Found& one : found) index_.set_parent(one.slot, earlier.parent(one.slot) - 1);
  std::vector<std::uint32_t> warmest_first, path;
  std::vector<bool> listed(table_.end());
  for (const Found& one : std::views::reverse(found)) {
    path.clear();
    for (std::uint32_t slot = one.slot; slot != kNoSlot && !listed[slot];
         slot = index_.parent(slot)) {
      if (index_.state(slot) != SlotState::kCommitted) break;
      listed[slot] = true;
      path.push_back(slot);
    }
    warmest_first.insert(warmest_first.end(), path.rbegin(), path.rend());
  }
  for (const std::uint32_t slot : std::views::reverse(warmest_first))
    chunks_.order().enter_alone(slot);
}

void Restorer::enter(const Found& one, Restored& restored) {
  SlotState state = one.state;
  // A key has one entry. Of two, which only damage leaves, the first in the order of granting
  // stays.
  const bool known = state == SlotState::kCommitted && index_.find(index_.key(one.slot)) != kNoSlot;
  if (known || !index_.adopt(one.slot, state)) {
    ++restored.dropped;
    state = SlotState::kDying;
    index_.adopt(one.slot, state);
    if (one.state == SlotState::kCommitted) index_.detach(one.slot);
  }
  if (state == SlotState::kCommitted) {
    chunks_.enter_namespace(one.slot);
    chunks_.count_in(one.slot);
    namespaces_.touch(index_.key(one.slot).namespace_handle);
    ++restored.kept;
    if (index_.session(one.slot) == kOwnSession) listeners_.came_up(one.slot, 0);
  } else if (state == SlotState::kQuarantined) {
    sessions_.adopt(one.slot);
    ++restored.quarantined;
  } else {
    removals_.adopt(one.slot);
  }
}

}  // namespace larder::store
