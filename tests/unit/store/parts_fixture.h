// The parts of a Store, each alone or over those below: slots without a Store around.
#pragma once

#include "sidecar/store/readers.h"
#include "sidecar/store/recovery_grace.h"
#include "sidecar/store/session_book.h"
#include "sidecar/store/tier_listeners.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {

// A ChunkTable over plain memory, with one namespace of two shards: a family has two chunks. A
// chunk takes one slot.
class ChunkBox {
 public:
  static constexpr std::uint64_t kSlotBytes = StoreBox::kSlotBytes;
  static constexpr std::uint64_t kPayloadBytes = 4096;

  explicit ChunkBox(std::uint64_t slots)
      : shape_{slots * 2, IndexShape::buckets_for(slots * 2), slots * kSlotBytes, 1, 1000},
        index_(zeroed_pages(shape_.bytes())),
        arena_(zeroed_pages(shape_.arena_bytes)),
        chunks_(shape_, index_.get(), arena_.get(), Eviction::kLru) {
    chunks_.set_touched_bytes(shape_.arena_bytes);
    std::string difference;
    handle_ = *chunks_.open_namespace(make_spec("field: a\n"), &difference);
  }

  protocol::Key key(std::uint64_t n, std::uint16_t shard = 0) const {
    return {{n * 0x9e3779b97f4a7c15ULL, n * 0xc2b2ae3d27d4eb4fULL + 1}, handle_, shard, 0};
  }
  // Grants this slot. The slot is in no list: the test enters the slot.
  void grant(const SlotArena::Slot& slot, const protocol::Key& key, SessionNumber session = 1) {
    chunks_.index().grant(slot.number, key, {slot.offset_bytes, kPayloadBytes, kPayloadBytes},
                          session);
    chunks_.enter_namespace(slot.number);
  }
  // A free slot, or kNoSlot.
  SlotArena::Slot take() { return chunks_.arena().take(size_class()); }
  std::uint32_t size_class() { return chunks_.arena().size_class(kSlotBytes); }
  void commit(std::uint32_t slot) {
    chunks_.index().commit(slot, 1);
    chunks_.order().enter(slot);
    chunks_.count_in(slot);
  }
  // Grants and commits a chunk. REQUIRES: a free slot.
  std::uint32_t put(std::uint64_t n, std::uint16_t shard = 0) {
    const SlotArena::Slot slot = take();
    grant(slot, key(n, shard));
    commit(slot.number);
    return slot.number;
  }
  void put_family(std::uint64_t n) {
    put(n, 0);
    put(n, 1);
  }
  bool has(std::uint64_t n, std::uint16_t shard = 0) {
    const std::uint32_t slot = chunks_.index().find(key(n, shard));
    return slot != kNoSlot && chunks_.index().state(slot) == protocol::SlotState::kCommitted;
  }
  protocol::SlotState state(std::uint32_t slot) { return chunks_.index().state(slot); }
  protocol::SlotRef ref(std::uint32_t slot) { return {slot, 0, chunks_.index().generation(slot)}; }
  const Namespace& opened() { return chunks_.namespaces().at(handle_); }

  ChunkTable& chunks() { return chunks_; }
  std::uint32_t handle() const { return handle_; }
  // Room for slots, in extents or outside.
  std::uint64_t free_slots() {
    const stats::Stats stats = filled();
    return stats.slots_free + stats.unused_bytes / kSlotBytes;
  }
  stats::Stats filled() const {
    stats::Stats stats;
    chunks_.fill(stats);
    return stats;
  }

 private:
  IndexShape shape_;
  Memory index_;
  Memory arena_;
  ChunkTable chunks_;
  std::uint32_t handle_ = 0;
};

// The parts that eviction and removals stand on, and one session with a region.
struct PartsBox {
  explicit PartsBox(std::uint64_t slots) : box(slots) { sessions.add(1, region()); }

  protocol::SessionRegion& region() {
    return *reinterpret_cast<protocol::SessionRegion*>(memory.get());
  }
  void hold(std::uint32_t slot) {
    StoreBox::hold(region(), 0, {0, slot, box.chunks().index().generation(slot), 0});
  }
  void let_go() { region().holds[0].exchange(0); }

  ChunkBox box;
  stats::Stats stats;
  Memory memory = zeroed_pages(sizeof(protocol::SessionRegion));
  TierListeners listeners{box.chunks(), stats};
  SessionBook sessions{box.chunks(), stats};
  Readers readers{box.chunks(), sessions};
  RecoveryGrace grace;
};

}  // namespace larder::store::testing_support
