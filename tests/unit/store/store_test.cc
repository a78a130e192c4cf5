#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::GrantStatus;

TEST(Store, ChunkIsVisibleFromItsCommit) {
  StoreBox box(4);
  box.add_session(1);
  const protocol::Grant grant = box.reserve(1, 7);
  ASSERT_EQ(grant.status, status_of(GrantStatus::kGranted));
  EXPECT_GT(grant.generation, 1000U);
  EXPECT_FALSE(box.find(7));
  box.store().commit(1, {grant.slot, 0, grant.generation, 99});
  const auto view = box.find(7);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->generation, grant.generation);
  EXPECT_EQ(view->offset_bytes, grant.offset_bytes);
  EXPECT_EQ(view->payload_bytes, 4096U);
  EXPECT_EQ(view->piece_bytes, 4096U);
  EXPECT_EQ(view->root, 99U);
}

TEST(Store, ReserveReportsPendingAndPresentChunks) {
  StoreBox box(4);
  box.add_session(1);
  box.add_session(2);
  const protocol::Grant grant = box.reserve(1, 7);
  EXPECT_EQ(box.reserve(2, 7).status, status_of(GrantStatus::kPending));
  EXPECT_EQ(box.reserve(1, 7).status, status_of(GrantStatus::kPending));
  box.store().commit(1, {grant.slot, 0, grant.generation, 1});
  EXPECT_EQ(box.reserve(2, 7).status, status_of(GrantStatus::kPresent));
  EXPECT_EQ(box.stats().reserve_pending, 2U);
  EXPECT_EQ(box.stats().reserve_present, 1U);
}

TEST(Store, TheSameKeyOfAnotherShardIsAnotherChunk) {
  StoreBox box(4);
  box.add_session(1);
  box.put(1, 7);
  protocol::Key other = box.key(7);
  other.shard = 1;
  EXPECT_EQ(box.reserve(1, other).status, status_of(GrantStatus::kGranted));
}

TEST(Store, OnlyPopulatedSlotsAreGranted) {
  StoreBox box(4);
  box.add_session(1);
  stats::Stats stats;
  const IndexShape shape{4, 2, 4 * StoreBox::kSlotBytes, 1, 1};
  const Memory index = zeroed_pages(shape.bytes());
  Store store(shape, index.get(), box.arena(), stats);
  store.sessions().add(1, box.region(1));
  std::string difference;
  ASSERT_TRUE(store.open_namespace(make_spec("f: 1"), &difference).ok());
  const protocol::Key scope{};
  const protocol::BlockHash hashes[] = {{1, 1}, {2, 2}, {3, 3}};
  protocol::Grant grants[3];
  store.set_touched_bytes(2 * StoreBox::kSlotBytes + 100);
  store.reserve(1, scope, hashes, grants);
  EXPECT_EQ(grants[1].status, status_of(GrantStatus::kGranted));
  EXPECT_EQ(grants[2].status, status_of(GrantStatus::kNoSpace));
  store.set_touched_bytes(3 * StoreBox::kSlotBytes);
  store.reserve(1, scope, std::span(hashes).last(1), std::span(grants).last(1));
  EXPECT_EQ(grants[2].status, status_of(GrantStatus::kGranted));
}

TEST(Store, ACommitOfAnotherSessionOrGenerationIsRefused) {
  StoreBox box(4);
  box.add_session(1);
  box.add_session(2);
  const protocol::Grant grant = box.reserve(1, 7);
  box.store().commit(2, {grant.slot, 0, grant.generation, 1});
  box.store().commit(1, {grant.slot, 0, grant.generation + 1, 1});
  box.store().commit(1, {grant.slot + 1, 0, grant.generation, 1});
  box.store().commit(1, {0xffffffff, 0, grant.generation, 1});
  EXPECT_EQ(box.stats().refused_commit, 4U);
  EXPECT_FALSE(box.find(7));
  box.store().commit(1, {grant.slot, 0, grant.generation, 1});
  EXPECT_TRUE(box.find(7));
  box.store().commit(1, {grant.slot, 0, grant.generation, 2});  // twice: the first one counts
  EXPECT_EQ(box.find(7)->root, 1U);
  EXPECT_EQ(box.stats().refused_commit, 5U);
}

TEST(Store, DisownedSlotAndItsKeyAreFree) {
  StoreBox box(1);
  box.add_session(1);
  const protocol::Grant grant = box.reserve(1, 7);
  EXPECT_EQ(box.reserve(1, 8).status, status_of(GrantStatus::kNoSpace));
  box.store().disown(1, {grant.slot, 0, grant.generation});
  box.store().disown(1, {grant.slot, 0, grant.generation});  // a second time has no effect
  EXPECT_EQ(box.stats().disowned, 1U);
  const protocol::Grant again = box.reserve(1, 7);
  EXPECT_EQ(again.status, status_of(GrantStatus::kGranted));
  EXPECT_GT(again.generation, grant.generation);
}

TEST(Store, ColdestChunkIsEvictedFirstAndTouchesCount) {
  StoreBox box(3);
  box.add_session(1);
  const protocol::Grant first = box.put(1, 1);
  box.put(1, 2);
  box.put(1, 3);
  box.store().touch(first.slot, first.generation);
  box.store().touch(first.slot, first.generation + 1);  // of another life: ignored
  box.store().touch(0xffffffff, 1);
  box.put(1, 4);
  EXPECT_TRUE(box.find(1));
  EXPECT_FALSE(box.find(2));
  EXPECT_TRUE(box.find(3));
  EXPECT_TRUE(box.find(4));
  EXPECT_EQ(box.stats().evicted_capacity, 1U);
}

// covers F-044, F-059
TEST(Store, AHeldChunkIsNotEvicted) {
  StoreBox box(2);
  auto& region = box.add_session(1);
  const protocol::Grant held = box.put(1, 1);
  box.put(1, 2);
  StoreBox::hold(region, 5, held);
  box.put(1, 3);
  EXPECT_TRUE(box.find(1));
  EXPECT_TRUE(box.reader().still_committed(held.slot, held.generation));
  EXPECT_FALSE(box.find(2));
  StoreBox::hold(region, 6, box.reserve(1, 3));  // a hold made of a refusal: slot 0, generation 0
  const auto third = box.find(3);
  region.holds[7].exchange(protocol::make_hold(third->slot, third->generation));
  region.holds_used = 8;
  EXPECT_EQ(box.reserve(1, 4).status, status_of(GrantStatus::kNoSpace));
  EXPECT_TRUE(box.find(1));
  EXPECT_TRUE(box.find(3));
  region.holds[5].exchange(0);
  EXPECT_EQ(box.reserve(1, 4).status, status_of(GrantStatus::kGranted));
  EXPECT_FALSE(box.find(1));
}

// covers F-110
TEST(Store, HostileHoldsAreBounded) {
  StoreBox box(2);
  auto& region = box.add_session(1);
  region.holds_used = ~0ULL;
  for (auto& hold : region.holds) hold = 0xffffffffffffffffULL;
  box.put(1, 1);
  box.put(1, 2);
  EXPECT_EQ(box.put(1, 3).status, status_of(GrantStatus::kGranted));
  box.store().sessions().watch_holds(0, false);
  EXPECT_EQ(box.store().sessions().use_of(1).holds, protocol::kMaxHolds);
  EXPECT_EQ(box.store().sessions().use_of(1).held_bytes, 0U);
}

TEST(Store, HoldOfAnEarlierGenerationIsIgnored) {
  StoreBox box(1);
  auto& region = box.add_session(1);
  const protocol::Grant first = box.put(1, 1);
  box.put(1, 2);
  StoreBox::hold(region, 0, first);
  EXPECT_EQ(box.put(1, 3).status, status_of(GrantStatus::kGranted));
}

TEST(Store, GrantsOfOneSessionAreCapped) {
  StoreBox box(protocol::kMaxGrants + 1);
  box.add_session(1);
  for (std::uint64_t n = 0; n < protocol::kMaxGrants; ++n)
    ASSERT_EQ(box.reserve(1, n).status, status_of(GrantStatus::kGranted));
  EXPECT_EQ(box.reserve(1, 1'000'000).status, status_of(GrantStatus::kRefused));
  EXPECT_EQ(box.stats().refused_cap, 1U);
}

TEST(Store, GenerationsStayBelowTheMarkInTheHeader) {
  StoreBox box(2, 5000);
  box.add_session(1);
  const auto* header = reinterpret_cast<const protocol::IndexHeader*>(box.index());
  EXPECT_EQ(header->generation_high_water.load(), 5000U);
  std::uint64_t last = 5000;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    const protocol::Grant grant = box.put(1, n);
    EXPECT_GT(grant.generation, last);
    last = grant.generation;
    ASSERT_LE(last, header->generation_high_water.load());
  }
}

TEST(Store, ACommittedRecordCarriesItsChecksum) {
  StoreBox box(2);
  box.add_session(1);
  const protocol::Grant grant = box.put(1, 1);
  const auto* entries =
      reinterpret_cast<const protocol::IndexEntry*>(box.index() + sizeof(protocol::IndexHeader));
  EXPECT_EQ(entries[grant.slot].record.load(), protocol::record_checksum(*box.find(1)));
}

TEST(Store, ReportedChunkIsRemovedEvenWithGoodBytes) {
  StoreBox box(2);
  auto& region = box.add_session(1);
  const protocol::Grant good = box.put(1, 1);
  const protocol::Grant torn = box.put(1, 2);
  box.arena()[torn.offset_bytes + 100] ^= std::byte{1};
  StoreBox::hold(region, 0, good);
  box.store().report_bad({good.slot, 0, good.generation});
  box.store().report_bad({torn.slot, 0, torn.generation});
  box.store().report_bad({torn.slot, 0, torn.generation});      // known
  box.store().report_bad({torn.slot, 0, torn.generation - 1});  // not this one
  EXPECT_FALSE(box.find(1));
  EXPECT_FALSE(box.find(2));
  EXPECT_TRUE(box.store().verify_next());
  EXPECT_TRUE(box.store().verify_next());
  EXPECT_FALSE(box.store().verify_next());
  EXPECT_EQ(box.stats().bad_reported, 4U);
  EXPECT_EQ(box.stats().evicted_bad, 2U);
  EXPECT_EQ(box.stats().bad_confirmed, 1U);
  box.store().sweep();
  EXPECT_EQ(box.reserve(1, 3).slot, torn.slot);
  EXPECT_EQ(box.reserve(1, 4).status, status_of(GrantStatus::kNoSpace))
      << "the good one is still being read";
  region.holds[0] = 0;
  box.store().sweep();
  EXPECT_EQ(box.reserve(1, 4).slot, good.slot);
}

TEST(Store, DropKeepsOtherNamespacesAndRefusesLaterCommits) {
  StoreBox box(8);
  auto& region = box.add_session(1);
  const std::uint32_t other = box.open("field: b\n");
  protocol::Key spared = box.key(1);
  spared.namespace_handle = other;
  const protocol::Grant kept = box.reserve(1, spared);
  box.store().commit(1, {kept.slot, 0, kept.generation, 5});
  const protocol::Grant held = box.put(1, 1);
  box.put(1, 2);
  StoreBox::hold(region, 0, held);
  const protocol::Grant writing = box.reserve(1, 3);
  EXPECT_EQ(box.drop(box.handle()), 2U);
  EXPECT_FALSE(box.find(1));
  EXPECT_FALSE(box.find(2));
  EXPECT_TRUE(box.reader().find(spared));
  EXPECT_FALSE(box.reader().still_committed(held.slot, held.generation));
  EXPECT_EQ(box.reserve(1, 3).status, status_of(GrantStatus::kGranted))
      << "a doomed grant does not block its key";
  box.store().commit(1, {writing.slot, 0, writing.generation, 5});
  EXPECT_FALSE(box.find(3));
  EXPECT_EQ(box.stats().refused_commit, 1U);
  const stats::Stats stats = box.filled();
  EXPECT_EQ(stats.namespaces[0].chunks, 0U);
  EXPECT_EQ(stats.namespaces[1].chunks, 1U);
  EXPECT_EQ(stats.namespaces[1].bytes, 4096U);
  EXPECT_EQ(box.drop(), 1U);
  EXPECT_EQ(box.stats().evicted_dropped, 3U);
}

}  // namespace
}  // namespace larder::store::testing_support
