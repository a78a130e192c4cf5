// The reports to a tier below memory, and the chunks that the tier is asked to take.
#include "tests/unit/store/recording_listener.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

class TierListenersTest : public testing::Test {
 protected:
  TierListenersTest() {
    box_.add_session(1);
    box_.store().tiers().set(0, &listener_);
  }
  std::vector<std::uint32_t> next_to_go(bool also_written = false) {
    std::vector<protocol::SlotRef> slots;
    box_.store().next_to_go(0, slots, also_written);
    std::vector<std::uint32_t> numbers;
    for (const protocol::SlotRef& slot : slots) numbers.push_back(slot.slot);
    return numbers;
  }
  std::vector<protocol::Grant> fill(std::uint64_t chunks) {
    std::vector<protocol::Grant> grants;
    for (std::uint64_t n = 1; n <= chunks; ++n) grants.push_back(box_.put(1, n));
    return grants;
  }
  void mark(const protocol::Grant& grant) {
    box_.store().tiers().mark_written(0, grant.slot, grant.generation);
  }

  StoreBox box_{16};
  RecordingListener listener_;
};

TEST_F(TierListenersTest, NoChunkIsACandidateWithoutPressure) {
  fill(7);
  EXPECT_TRUE(next_to_go().empty());
}

std::vector<std::uint32_t> slots_of(const std::vector<protocol::Grant>& grants, std::size_t first,
                                    std::size_t count) {
  std::vector<std::uint32_t> slots;
  for (std::size_t i = first; i < first + count; ++i) slots.push_back(grants[i].slot);
  return slots;
}

// As much as one session may be granted before any chunk can be written: a step of an engine once
// evicted unwritten chunks.
TEST_F(TierListenersTest, ColdestHalfIsCandidateBeforeEvictionStarts) {
  const std::vector<protocol::Grant> grants = fill(16);
  EXPECT_EQ(next_to_go(), slots_of(grants, 0, 8));
  box_.store().touch(grants[0].slot, grants[0].generation);
  EXPECT_EQ(next_to_go(), slots_of(grants, 1, 8));
  mark(grants[1]);
  EXPECT_EQ(next_to_go(), slots_of(grants, 2, 7));
  EXPECT_EQ(next_to_go(true).size(), 8U);
  EXPECT_TRUE(box_.find(1)) << "asking evicts nothing";
}

TEST_F(TierListenersTest, WrittenMarkAppliesToOneGeneration) {
  const protocol::Grant grant = fill(1).front();
  std::vector<protocol::SlotRef> slots;
  box_.store().tiers().mark_written(0, grant.slot, grant.generation + 1);
  EXPECT_EQ(box_.store().tiers().walk(0, 0, 100, slots, false), kNoSlot);
  EXPECT_EQ(slots.size(), 1U);
  mark(grant);
  slots.clear();
  box_.store().tiers().walk(0, 0, 100, slots, false);
  EXPECT_TRUE(slots.empty());
  box_.drop();
  const protocol::Grant again = box_.put(1, 1);  // the same slot, another chunk
  ASSERT_EQ(again.slot, grant.slot);
  box_.store().tiers().walk(0, 0, 100, slots, false);
  EXPECT_EQ(slots.size(), 1U);
}

TEST_F(TierListenersTest, TheWalkVisitsAllChunksInSlices) {
  fill(16);
  std::vector<protocol::SlotRef> slots;
  std::uint32_t next = 0;
  int slices = 0;
  for (; next != kNoSlot; ++slices) next = box_.store().tiers().walk(0, next, 5, slots, false);
  EXPECT_EQ(slots.size(), 16U);
  EXPECT_EQ(slices, 4);
}

// covers F-143
TEST_F(TierListenersTest, EvictedUnwrittenChunksAreCountedWithATier) {
  const std::vector<protocol::Grant> grants = fill(16);
  mark(grants[0]);
  box_.put(1, 17);
  EXPECT_EQ(box_.stats().evicted_capacity, 1U);
  EXPECT_EQ(box_.stats().evicted_unwritten, 0U);
  box_.put(1, 18);
  EXPECT_EQ(box_.stats().evicted_unwritten, 1U);
  box_.store().tiers().set(0, nullptr);
  box_.put(1, 19);
  EXPECT_EQ(box_.stats().evicted_capacity, 3U);
  EXPECT_EQ(box_.stats().evicted_unwritten, 1U);
}

// Otherwise a reader of the log would look at the disk's speed, although the filter keeps the
// chunks from the disk.
TEST_F(TierListenersTest, EvictedNotAdmittedChunksAreCountedSeparately) {
  fill(16);
  listener_.not_admitted.insert(box_.key(1).hash.lo);
  box_.put(1, 17);
  EXPECT_EQ(box_.stats().evicted_unwritten, 0U);
  EXPECT_EQ(box_.stats().evicted_not_admitted, 1U);
  box_.put(1, 18);
  EXPECT_EQ(box_.stats().evicted_unwritten, 1U);
  EXPECT_EQ(box_.stats().evicted_not_admitted, 1U);
}

TEST_F(TierListenersTest, EachTierHasItsOwnMarks) {
  RecordingListener other;
  box_.store().tiers().set(1, &other);
  const std::vector<protocol::Grant> grants = fill(16);
  EXPECT_EQ(other.committed_roots.size(), 16U);
  mark(grants[0]);
  std::vector<protocol::SlotRef> slots;
  box_.store().next_to_go(1, slots, false);
  EXPECT_EQ(slots.size(), 8U) << "the other tier has no chunk";
  box_.store().tiers().mark_written(1, grants[0].slot, grants[0].generation);
  box_.store().tiers().mark_written(0, grants[0].slot, grants[0].generation, false);
  EXPECT_EQ(next_to_go(), slots_of(grants, 0, 8));
  slots.clear();
  box_.store().next_to_go(1, slots, false);
  EXPECT_EQ(slots.size(), 7U);
  // A loss is a chunk that a tier should have and has not, or that no tier has.
  box_.put(1, 17);
  EXPECT_EQ(box_.stats().evicted_unwritten, 1U);
  mark(grants[1]);
  other.not_admitted.insert(box_.key(2).hash.lo);
  box_.put(1, 18);
  EXPECT_EQ(box_.stats().evicted_unwritten, 1U);
  EXPECT_EQ(box_.stats().evicted_not_admitted, 0U) << "one has it, the other was not to";
  for (RecordingListener* one : {&listener_, &other}) one->not_admitted.insert(box_.key(3).hash.lo);
  box_.put(1, 19);
  EXPECT_EQ(box_.stats().evicted_not_admitted, 1U);
  box_.drop();
  EXPECT_EQ(other.drops.size(), 1U);
}

// Its users want the chunk gone: once the chunk was found again on the disk.
// covers F-153
TEST_F(TierListenersTest, ExplicitEvictionReachesEveryTier) {
  box_.put(1, 1);
  const std::vector<protocol::BlockHash> hashes{box_.key(1).hash, box_.key(2).hash,
                                                box_.key(3).hash, box_.key(4).hash};
  listener_.evictions = {{box_.key(2).hash.lo, LowerTierEviction::kGone},
                         {box_.key(4).hash.lo, LowerTierEviction::kRefused}};
  const protocol::ActCounts counts = box_.store().families().evict(box_.handle(), hashes);
  EXPECT_EQ(counts.found, 2U) << "one here, one below";
  EXPECT_EQ(counts.absent, 1U);
  EXPECT_EQ(counts.refused, 1U);
  std::vector<protocol::Key> all;  // of both shards
  for (std::uint64_t n = 1; n <= 4; ++n) all.insert(all.end(), {box_.key(n), box_.sibling(n)});
  EXPECT_EQ(listener_.evicted_keys, all);
  EXPECT_FALSE(box_.find(1));
}

TEST_F(TierListenersTest, ListenerReceivesStoresUsesAndDamage) {
  const protocol::Grant grant = box_.put(1, 7);
  const std::uint64_t root = box_.find(7)->root;
  EXPECT_EQ(listener_.committed_roots, std::vector<std::uint64_t>{root});
  box_.store().touch(grant.slot, grant.generation);
  EXPECT_EQ(listener_.used_roots, std::vector<std::uint64_t>{root});

  box_.store().report_bad({grant.slot, 0, grant.generation});
  box_.store().verify_next();
  EXPECT_TRUE(listener_.damaged_keys.empty()) << "the engine was wrong";
  const protocol::Grant torn = box_.put(1, 8);
  box_.arena()[torn.offset_bytes] ^= std::byte{1};
  box_.store().report_bad({torn.slot, 0, torn.generation});
  box_.store().verify_next();
  EXPECT_EQ(listener_.damaged_keys, std::vector<protocol::Key>{box_.key(8)});
}

TEST_F(TierListenersTest, DropIsAnnouncedOnceBeforeAnyChunkIsRemoved) {
  StoreBox large{Store::kSliceEffort + 10};
  large.add_session(1);
  large.store().tiers().set(0, &listener_);
  for (std::uint64_t n = 0; n < Store::kSliceEffort + 5; ++n) large.put(1, n);
  {
    Drop drop{large.handle()};
    large.store().drop(drop);
    EXPECT_FALSE(drop.done);
    EXPECT_EQ(listener_.drops.size(), 1U);
    EXPECT_FALSE(listener_.going_on.expired());
    large.store().drop(drop);
    EXPECT_TRUE(drop.done);
  }
  EXPECT_EQ(listener_.drops, (std::vector<std::optional<std::uint32_t>>{large.handle()}));
  EXPECT_TRUE(listener_.going_on.expired());
  large.drop();  // no chunk is there, but below there may be
  EXPECT_EQ(listener_.drops.size(), 2U);
  EXPECT_FALSE(listener_.drops[1]);
}

}  // namespace
}  // namespace larder::store::testing_support
