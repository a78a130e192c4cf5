#include "sidecar/store/family.h"

namespace larder::store {

using protocol::SlotState;

namespace {
// The largest family whose cells are prefetched. Caches would not keep the cells of a larger family
// until its look-up.
constexpr std::size_t kMostPrefetched = 64;
}  // namespace

void find_family(ChunkTable& chunks, std::uint32_t handle, const protocol::BlockHash& hash,
                 Family& family, std::uint32_t known) {
  family.clear();
  const NamespaceSpec& spec = chunks.namespaces().at(handle).spec;
  family.expected = spec.part_count();
  if (known != kNoSlot && family.expected == 1) return family.committed.push_back(known);
  chunks.spend(family.expected);
  each_member(spec, {hash, handle, 0, 0}, [&](const protocol::Key& key) {
    const std::uint32_t slot = chunks.index().find(key);
    if (slot == kNoSlot) return;
    (chunks.index().state(slot) == SlotState::kCommitted ? family.committed : family.granted)
        .push_back(slot);
  });
}

void look_at_family(ChunkTable& chunks, std::uint32_t handle, const protocol::BlockHash& hash,
                    std::vector<Member>& members) {
  members.clear();
  if (!chunks.namespaces().is_open(handle)) return;
  const NamespaceSpec& spec = chunks.namespaces().at(handle).spec;
  chunks.spend(spec.part_count());
  each_member(spec, {hash, handle, 0, 0}, [&](const protocol::Key& key) {
    const std::uint32_t slot = chunks.index().find(key);
    if (slot == kNoSlot) return members.push_back({key, {}, SlotState::kFree});
    members.push_back(
        {key, {slot, 0, chunks.index().generation(slot)}, chunks.index().state(slot)});
  });
}

void prefetch_family(ChunkTable& chunks, std::uint32_t slot) {
  // The other slots of a window that is drained may have no key, or the key of a released
  // namespace.
  if (chunks.index().state(slot) != SlotState::kCommitted) return;  // mutation: drained-slots
  const protocol::Key known = chunks.index().key(slot);
  const NamespaceSpec& spec = chunks.namespaces().at(known.namespace_handle).spec;
  const std::size_t members = spec.part_count();
  if (members == 1 || members > kMostPrefetched) return;
  each_member(spec, known, [&](const protocol::Key& key) { chunks.index().prefetch(key); });
}

}  // namespace larder::store
