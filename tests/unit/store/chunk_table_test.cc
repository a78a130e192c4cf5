// ChunkTable alone: in every state of a slot, index, arena, namespaces, order and sums agree.
#include "sidecar/store/chunk_table.h"

#include <algorithm>
#include <random>

#include "tests/unit/store/parts_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::SlotState;

// Moves slots at random, and remembers their states.
class ChunkTableModel : public testing::Test {
 protected:
  static constexpr std::uint64_t kSlots = 64;
  enum class Stage { kGranted, kCommitted, kPinned };

  void step() {
    if (stages_.empty() || random_() % 3 == 0) return grant();
    auto one = std::next(stages_.begin(), static_cast<std::ptrdiff_t>(random_() % stages_.size()));
    switch (random_() % 4) {
      case 0: return commit(one->first, one->second);
      case 1: return pin(one->first, one->second);
      case 2: return unpin(one->first, one->second);
      default: break;
    }
    free(one->first, one->second);
    stages_.erase(one);
  }
  void grant() {
    const SlotArena::Slot slot = box_.take();
    if (slot.number == kNoSlot) return;
    box_.grant(slot, box_.key(++keys_));
    stages_[slot.number] = Stage::kGranted;
  }
  void commit(std::uint32_t slot, Stage& stage) {
    if (stage != Stage::kGranted) return;
    box_.commit(slot);
    stage = Stage::kCommitted;
  }
  // A second pin changes nothing.
  void pin(std::uint32_t slot, Stage& stage) {
    if (stage == Stage::kGranted) return;
    chunks_.pin(slot);
    stage = Stage::kPinned;
  }
  void unpin(std::uint32_t slot, Stage& stage) {
    if (stage == Stage::kGranted) return;
    chunks_.unpin_all(std::span(&slot, 1));
    chunks_.order().touch(slot);
    stage = Stage::kCommitted;
  }
  void free(std::uint32_t slot, Stage stage) {
    if (stage == Stage::kPinned) chunks_.unpin(slot);
    if (stage == Stage::kCommitted) chunks_.order().leave(slot);
    if (stage != Stage::kGranted) chunks_.count_out(slot);
    chunks_.index().set_state(slot, SlotState::kDying);
    chunks_.index().erase_key(slot);
    if (random_() % 2 == 0) chunks_.detach(slot);
    chunks_.free_slot(slot);
  }
  std::uint32_t count(Stage stage) const {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(stages_, [&](const auto& one) { return one.second == stage; }));
  }
  void expect_agreement() {
    const std::uint32_t pinned = count(Stage::kPinned),
                        committed = count(Stage::kCommitted) + pinned;
    const stats::Stats stats = box_.filled();
    ASSERT_EQ(stats.slots_committed, committed);
    ASSERT_EQ(chunks_.committed(), committed);
    ASSERT_EQ(stats.used_bytes, committed * ChunkBox::kPayloadBytes);
    ASSERT_EQ(stats.slots_pinned, pinned);
    ASSERT_EQ(chunks_.pinned_bytes(), pinned * ChunkBox::kSlotBytes);
    ASSERT_EQ(box_.free_slots(), kSlots - stages_.size());
    ASSERT_EQ(box_.opened().slots, stages_.size());
    ASSERT_EQ(box_.opened().chunks, committed);
    ASSERT_EQ(box_.opened().pinned, pinned);
    std::vector<std::uint32_t> victims(kSlots);
    ASSERT_EQ(chunks_.order().policy().first_victims(box_.size_class(), victims),
              committed - pinned);
  }

  ChunkBox box_{kSlots};
  ChunkTable& chunks_ = box_.chunks();
  std::mt19937 random_{20261126};
  std::map<std::uint32_t, Stage> stages_;  // by slot
  std::uint64_t keys_ = 0;
};

TEST_F(ChunkTableModel, SumsAgreeAfterRandomOperations) {
  for (int i = 0; i < 5000; ++i) {
    step();
    ASSERT_NO_FATAL_FAILURE(expect_agreement()) << "after step " << i;
  }
}

TEST(ChunkTable, ChunkIsFoundOnlyAtItsGeneration) {
  ChunkBox box(4);
  const std::uint32_t slot = box.put(1);
  const std::uint64_t generation = box.chunks().index().generation(slot);
  EXPECT_TRUE(box.chunks().committed_chunk(slot, generation));
  EXPECT_FALSE(box.chunks().committed_chunk(slot, generation + 1));
  EXPECT_FALSE(box.chunks().committed_chunk(slot + 1, generation)) << "was never taken";
  box.chunks().index().set_state(slot, SlotState::kDying);
  EXPECT_FALSE(box.chunks().committed_chunk(slot, generation));
}

TEST(ChunkTable, LastSlotClosesAnAbandonedNamespace) {
  ChunkBox box(4);
  const SlotArena::Slot slot = box.take();
  box.grant(slot, box.key(1));
  box.chunks().namespaces().join(box.handle());
  box.chunks().leave_namespace(box.handle());
  EXPECT_TRUE(box.chunks().namespaces().is_open(box.handle()));
  box.chunks().index().erase_key(slot.number);
  box.chunks().free_slot(slot.number);
  EXPECT_FALSE(box.chunks().namespaces().is_open(box.handle()));
}

}  // namespace
}  // namespace larder::store::testing_support
