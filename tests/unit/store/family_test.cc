// Chunks of one block hash leave together and are pinned together; a family of two shards here.
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::GrantStatus;

// Both shards of n.
void put_family(StoreBox& box, std::uint64_t n) {
  box.put(1, box.key(n));
  box.put(1, box.sibling(n));
}
std::vector<protocol::BlockHash> hashes(const StoreBox& box,
                                        std::initializer_list<std::uint64_t> numbers) {
  std::vector<protocol::BlockHash> list;
  for (const std::uint64_t n : numbers) list.push_back(box.key(n).hash);
  return list;
}

// covers F-062
TEST(Family, IsEvictedAsAWhole) {
  StoreBox box(4);
  box.add_session(1);
  put_family(box, 1);
  put_family(box, 2);
  const auto warm = box.reader().find(box.sibling(1));
  box.store().touch(warm->slot, warm->generation);  // one shard alone
  box.put(1, 3);
  EXPECT_FALSE(box.has(box.key(1))) << "the coldest chunk";
  EXPECT_FALSE(box.has(box.sibling(1))) << "is of no use without it";
  EXPECT_TRUE(box.has(box.key(2)));
  EXPECT_TRUE(box.has(box.sibling(2)));
}

// covers F-062
TEST(Family, StaysWhileOneChunkIsHeld) {
  StoreBox box(4);
  auto& region = box.add_session(1);
  box.put(1, box.key(1));
  StoreBox::hold(region, 0, box.put(1, box.sibling(1)));
  put_family(box, 2);
  box.put(1, 3);
  EXPECT_TRUE(box.has(box.key(1)));
  EXPECT_TRUE(box.has(box.sibling(1)));
  EXPECT_FALSE(box.has(box.key(2)));
}

TEST(Family, StaysWhileOneChunkIsBeingWritten) {
  StoreBox box(4);
  box.add_session(1);
  box.put(1, box.key(1));
  const protocol::Grant writing = box.reserve(1, box.sibling(1));
  put_family(box, 2);
  box.put(1, 3);
  EXPECT_TRUE(box.has(box.key(1)));
  EXPECT_FALSE(box.has(box.key(2)));
  box.store().commit(1, {writing.slot, 0, writing.generation, 1});
  EXPECT_TRUE(box.has(box.sibling(1)));
}

TEST(Family, WithTwoSizesIsEvictedAsAWhole) {
  StoreBox box(16);
  box.add_session(1);
  NamespaceSpec spec = make_spec("groups: 2\n");
  spec.shard_count = 1;
  spec.groups = {{4096, 1, 0}, {16384, 1, 0}};
  std::string difference;
  const std::uint32_t handle = *box.store().open_namespace(spec, &difference);
  const auto member = [&](std::uint64_t n, std::uint16_t group) {
    protocol::Key key = box.key(n);
    key.namespace_handle = handle;
    key.group = group;
    return key;
  };
  std::uint64_t whole = 0;
  for (std::uint64_t n = 0; n < 100; ++n) {
    ASSERT_EQ(box.put(1, member(n, 0)).status, status_of(GrantStatus::kGranted));
    ASSERT_EQ(box.put(1, member(n, 1)).status, status_of(GrantStatus::kGranted));
    whole = 0;
    for (std::uint64_t known = 0; known <= n; ++known) {
      ASSERT_EQ(box.has(member(known, 0)), box.has(member(known, 1)))
          << "half a family: " << known << " after " << n;
      whole += box.has(member(known, 0));
    }
  }
  EXPECT_GE(whole, 3U) << "of four that the arena takes";
}

// covers F-286
TEST(Family, IsCompleteWithoutOmittedParts) {
  StoreBox box(8);
  box.add_session(1);
  NamespaceSpec spec = make_spec("stages: 2\n");
  spec.parts = {0b01};
  std::string difference;
  const std::uint32_t handle = *box.store().open_namespace(spec, &difference);
  const auto member = [&](std::uint64_t n) {
    protocol::Key key = box.key(n);
    key.namespace_handle = handle;
    return key;
  };
  ASSERT_EQ(box.put(1, member(1)).status, status_of(GrantStatus::kGranted));
  put_family(box, 2);
  box.put(1, box.key(3));
  const protocol::ActCounts kept = box.store().families().pin(handle, hashes(box, {1, 2}));
  EXPECT_EQ(kept.found, 1U);
  EXPECT_EQ(kept.absent, 1U);
  EXPECT_EQ(box.store().families().pin(box.handle(), hashes(box, {2, 3})).found, 1U)
      << "one shard of two is no family";
}

TEST(Family, BadChunkKeepsTheOthersForTheNextStore) {
  StoreBox box(4);
  box.add_session(1);
  put_family(box, 1);
  const auto bad = box.find(1);
  box.store().report_bad({bad->slot, 0, bad->generation});
  EXPECT_FALSE(box.has(box.key(1)));
  EXPECT_TRUE(box.has(box.sibling(1)));
  EXPECT_EQ(box.reserve(1, box.key(1)).status, status_of(GrantStatus::kGranted));
}

TEST(Pins, AreNotEvicted) {
  StoreBox box(8);
  box.add_session(1);
  for (std::uint64_t n = 1; n <= 4; ++n) put_family(box, n);
  const protocol::ActCounts counts =
      box.store().families().pin(box.handle(), hashes(box, {1, 2, 9}));
  EXPECT_EQ(counts.found, 2U);
  EXPECT_EQ(counts.absent, 1U);
  for (std::uint64_t n = 10; n < 40; ++n)
    ASSERT_EQ(box.put(1, n).status, status_of(GrantStatus::kGranted));
  for (const std::uint64_t n : {1, 2}) {
    EXPECT_TRUE(box.has(box.key(n)));
    EXPECT_TRUE(box.has(box.sibling(n)));
  }
  EXPECT_EQ(box.filled().slots_pinned, 4U);
  EXPECT_EQ(box.filled().pinned_bytes, 4 * StoreBox::kSlotBytes);
  EXPECT_EQ(box.store().families().unpin(box.handle(), hashes(box, {1})).found, 1U);
  for (std::uint64_t n = 40; n < 60; ++n) box.put(1, n);
  EXPECT_FALSE(box.has(box.key(1)));
  EXPECT_TRUE(box.has(box.key(2)));
  EXPECT_EQ(box.filled().pinned_bytes, 2 * StoreBox::kSlotBytes);
}

// covers F-063
TEST(Pins, AreBoundedToAShareOfTheArenaAndCountOnce) {
  StoreBox box(8);
  box.add_session(1);
  for (std::uint64_t n = 1; n <= 4; ++n) put_family(box, n);
  EXPECT_EQ(box.store().families().pin(box.handle(), hashes(box, {1, 2})).found, 2U);
  EXPECT_EQ(box.store().families().pin(box.handle(), hashes(box, {1, 2})).found, 2U);
  EXPECT_EQ(box.store().families().pin(box.handle(), hashes(box, {3})).refused, 1U);
  EXPECT_EQ(box.filled().slots_pinned, 8U / protocol::kPinnedShare);
  for (std::uint64_t n = 10; n < 20; ++n)
    EXPECT_EQ(box.put(1, n).status, status_of(GrantStatus::kGranted));
}

TEST(Pins, IncompleteFamilyIsNotPinned) {
  StoreBox box(4);
  box.add_session(1);
  box.put(1, box.key(1));
  EXPECT_EQ(box.store().families().pin(box.handle(), hashes(box, {1})).absent, 1U);
  const protocol::Grant writing = box.reserve(1, box.sibling(1));
  EXPECT_EQ(box.store().families().pin(box.handle(), hashes(box, {1})).absent, 1U);
  box.store().commit(1, {writing.slot, 0, writing.generation, 1});
  EXPECT_EQ(box.store().families().pin(box.handle(), hashes(box, {1})).found, 1U);
}

TEST(Pins, EndAfterBadChunkDropOrEvict) {
  StoreBox box(12);
  box.add_session(1);
  for (std::uint64_t n = 1; n <= 3; ++n) put_family(box, n);
  EXPECT_EQ(box.store().families().pin(box.handle(), hashes(box, {1, 2, 3})).found, 3U);
  const auto bad = box.find(1);
  box.store().report_bad({bad->slot, 0, bad->generation});
  EXPECT_EQ(box.filled().slots_pinned, 4U);
  EXPECT_EQ(box.store().families().evict(box.handle(), hashes(box, {2})).found, 1U);
  EXPECT_EQ(box.filled().slots_pinned, 2U);
  box.drop(box.handle());
  EXPECT_EQ(box.filled().slots_pinned, 0U);
  EXPECT_EQ(box.filled().pinned_bytes, 0U);
  while (box.store().verify_next()) {
  }
  box.store().sweep();
  EXPECT_EQ(box.free_slots(), 12U);
}

TEST(Verbs, EvictHidesAFamilyAndRefusesChunksBeingWritten) {
  StoreBox box(6);
  auto& region = box.add_session(1);
  StoreBox::hold(region, 0, box.put(1, box.key(1)));
  const protocol::Grant writing = box.reserve(1, box.sibling(1));
  put_family(box, 2);
  const protocol::ActCounts counts =
      box.store().families().evict(box.handle(), hashes(box, {1, 7}));
  EXPECT_EQ(counts.found, 1U);
  EXPECT_EQ(counts.absent, 1U);
  EXPECT_FALSE(box.has(box.key(1)));
  EXPECT_TRUE(box.has(box.key(2)));
  box.store().commit(1, {writing.slot, 0, writing.generation, 1});
  EXPECT_FALSE(box.has(box.sibling(1)));
  EXPECT_EQ(box.free_slots(), 3U) << "the held one waits";
  region.holds[0] = 0;
  box.store().sweep();
  EXPECT_EQ(box.free_slots(), 4U);
}

TEST(Verbs, PrefetchCountsAsUse) {
  StoreBox box(4);
  box.add_session(1);
  put_family(box, 1);
  put_family(box, 2);
  const protocol::ActCounts counts =
      box.store().families().prefetch(box.handle(), hashes(box, {1, 8}));
  EXPECT_EQ(counts.found, 1U);
  EXPECT_EQ(counts.absent, 1U);
  box.put(1, 3);
  EXPECT_TRUE(box.has(box.key(1)));
  EXPECT_FALSE(box.has(box.key(2)));
}

}  // namespace
}  // namespace larder::store::testing_support
