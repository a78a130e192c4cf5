// A disk and a backend below one memory: the source of a read, and the target of each write.
#include <array>

#include "sidecar/tiering/tier_writer.h"
#include "tests/unit/tiering/promoter_fixture.h"
#include "tests/unit/tiering/scripted_tier.h"

namespace larder::tiering::testing_support {
namespace {

using store::testing_support::StoreBox;

class TwoReadableTiersTest : public testing::Test {
 protected:
  TwoReadableTiersTest() { box_.add_stranger(2); }
  // Until the speed of both is known.
  void measure() {
    for (int i = 0; i < 4; ++i) {
      box_.promotions.tick(false);
      box_.clock.advance_ms(1);
      box_.finish_reads();
    }
  }
  PromoterBox box_{32};
};

TEST_F(TwoReadableTiersTest, NearestTierWithTheChunkIsRead) {
  box_.put_below(1);
  box_.put_into_backend(1);
  box_.put_into_backend(2);
  box_.fetch(7, {1, 2});
  EXPECT_EQ(box_.tier.gets(), 2U);
  EXPECT_EQ(box_.backend.gets(), 2U);
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "2 all");
  EXPECT_TRUE(box_.in_memory(1) && box_.in_memory(2));
}

TEST_F(TwoReadableTiersTest, FamilyMayComeFromBothTiers) {
  box_.put_into(box_.tier, *box_.below, box_.memory.key(1), 1);
  box_.put_into(box_.backend, *box_.backend_region, box_.memory.sibling(1), 1);
  box_.fetch(7, {1});
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "1 all");
}

TEST_F(TwoReadableTiersTest, PrefetchReadsFromBothTiers) {
  box_.put_below(1);
  box_.put_into_backend(2);
  const std::vector hashes{box_.memory.key(1).hash, box_.memory.key(2).hash,
                           box_.memory.key(3).hash};
  const protocol::ActCounts counts = box_.promotions.prefetch(box_.memory.handle(), hashes);
  EXPECT_EQ(counts.found, 2U);
  EXPECT_EQ(counts.absent, 1U);
  box_.turn();
  box_.finish_reads();
  EXPECT_TRUE(box_.in_memory(1) && box_.in_memory(2));
}

TEST_F(TwoReadableTiersTest, FailedTierEndsThePrefix) {
  box_.put_below(1);
  box_.put_into_backend(2);
  box_.fetch(7, {1, 2});
  box_.backend.finish_one({Code::kUnavailable, "connection lost"});
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "1 failed");
}

// The reads under way from a stopped server are as many as may run at once: the disk goes on.
TEST_F(TwoReadableTiersTest, SlowTierDoesNotBlockTheOther) {
  PromoterBox large(8 * PromotionReads::kReadingBytes / PromoterBox::kSlotBytes);
  large.add_stranger(2);
  const std::uint64_t fills = PromotionReads::kReadingBytes / PromoterBox::kSlotBytes / 2;
  std::vector<std::uint64_t> all;
  for (std::uint64_t n = 1; n <= fills + 1; ++n) {
    large.put_into_backend(n);
    all.push_back(n);
  }
  std::uint32_t request = 0;
  for (std::size_t i = 0; i < all.size(); i += 256) {
    const std::size_t end = std::min(all.size(), i + 256);
    large.fetch(++request,
                {all.begin() + static_cast<long>(i), all.begin() + static_cast<long>(end)});
  }
  ASSERT_EQ(large.backend.waiting().size(), 2 * fills) << "and no more";
  large.put_below(1'000'000);
  large.fetch(99, {1'000'000});
  ASSERT_EQ(large.tier.waiting().size(), 2U);
  large.tier.finish_all();
  large.turn();
  EXPECT_EQ(large.told(99), "1 all");
}

// The reads under way from a stopped peer are as many as may run at once: other peers go on.
// covers F-275
TEST(ManyDevicesTest, StuckDeviceBlocksNoReadOfAnother) {
  PromoterBox box(8 * PromotionReads::kReadingBytes / PromoterBox::kSlotBytes, TierKind::kPeers);
  const std::uint64_t fills = PromotionReads::kReadingBytes / PromoterBox::kSlotBytes / 2;
  const auto device = [&](std::uint64_t n) {
    return box.backend.device(box.chunk(box.memory.key(n)));
  };
  std::vector<std::uint64_t> still;
  std::uint64_t n = 1;
  for (; still.size() < fills + 1; ++n)
    if (device(n) == 3) still.push_back(n);
  while (device(n) == 3) ++n;
  for (const std::uint64_t one : still) box.put_into_backend(one);
  box.put_into_backend(n);
  std::uint32_t request = 0;
  for (std::size_t i = 0; i < still.size(); i += 256)
    box.fetch(++request, {still.begin() + static_cast<long>(i),
                          still.begin() + static_cast<long>(std::min(still.size(), i + 256))});
  ASSERT_EQ(box.backend.waiting().size(), 2 * fills) << "and no more";
  box.fetch(99, {n});
  ASSERT_EQ(box.backend.waiting().size(), 2 * fills + 2);
  for (int i = 0; i < 2; ++i) box.backend.finish_one_of(device(n));
  box.turn();
  EXPECT_EQ(box.told(99), "1 all");
}

// A deadline that the backend missed says no word about the disk.
TEST_F(TwoReadableTiersTest, MissedDeadlineCountsForItsTier) {
  box_.put_below(1);
  box_.put_into_backend(2);
  measure();
  ASSERT_TRUE(box_.source.speed().serving && box_.backend_source.speed().serving);
  box_.fetch(7, {1, 2}, 100);
  box_.tier.finish_all();
  box_.turn();
  box_.clock.advance_ms(100);
  box_.turn();
  EXPECT_EQ(box_.told(7), "1 late");
  EXPECT_TRUE(box_.source.speed().serving);
  EXPECT_FALSE(box_.backend_source.speed().serving);
}

TEST_F(TwoReadableTiersTest, NearestTierIsReadWhenBothAreSlow) {
  box_.put_below(2);
  box_.put_into_backend(3);
  measure();
  box_.fetch(5, {2, 3}, 50);
  box_.clock.advance_ms(50);
  box_.turn();
  ASSERT_FALSE(box_.source.in_time() || box_.backend_source.in_time());
  box_.finish_reads();
  box_.put_below(1);
  box_.put_into_backend(1);
  box_.fetch(7, {1});
  EXPECT_EQ(box_.tier.waiting().size(), 2U);
  EXPECT_TRUE(box_.backend.waiting().empty());
}

// By another larderd, between the look and the read.
TEST_F(TwoReadableTiersTest, ChunkReplacedWithAnotherLayoutIsAMiss) {
  box_.put_into_backend(1);
  box_.fetch(7, {1});
  for (const protocol::Key& key : box_.family(1))
    box_.backend.store(box_.chunk(key), {9, 2048, 2048, 9},
                       std::vector<std::byte>(PromoterBox::kSlotBytes));
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "0 absent");
  EXPECT_FALSE(box_.in_memory(1));
}

class TwoTierWritersTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSlots = 16;
  TwoTierWritersTest() {
    box_.add_session(1);
    links_ = {make_link(TierKind::kDisk), make_link(TierKind::kBackend)};
    for (std::size_t i = 0; i < 2; ++i) tiers_[i] = static_cast<ScriptedTier*>(&links_[i]->tier());
  }
  static std::unique_ptr<TierLink> make_link(TierKind kind) {
    return std::make_unique<TierLink>(kind, std::make_unique<ScriptedTier>(), "/scripted");
  }
  void begin(const WriteRules& disk, const WriteRules& backend) {
    down_[0] = std::make_unique<TierWriter>(*links_[0], box_.store(), clock_, disk,
                                            kSlots * StoreBox::kSlotBytes);
    down_[1] = std::make_unique<TierWriter>(*links_[1], box_.store(), clock_, backend,
                                            kSlots * StoreBox::kSlotBytes);
  }
  void settle() {
    for (int i = 0; i < 20; ++i) {
      for (std::size_t tier = 0; tier < 2; ++tier) {
        down_[tier]->tick();
        links_[tier]->deliver();
        down_[tier]->pump();
      }
    }
  }
  static WriteRules rules(config::BackendWrite write, std::uint64_t bytes_per_s = 0) {
    config::BackendConfig config;
    config.write = write;
    config.write_bytes_per_s = bytes_per_s;
    return rules_for(config);
  }
  tiers::ChunkKey chunk(std::uint64_t n) {
    return {protocol::namespace_id("field: a\n"), box_.key(n).hash, 0, 0};
  }

  base::ManualClock clock_;
  StoreBox box_{kSlots};
  std::array<std::unique_ptr<TierLink>, 2> links_;
  std::array<ScriptedTier*, 2> tiers_{};
  std::array<std::unique_ptr<TierWriter>, 2> down_;
};

TEST_F(TwoTierWritersTest, ChunkInOneTierIsWrittenToTheOther) {
  begin({.through = true}, rules(config::BackendWrite::kAll));
  for (std::uint64_t n = 1; n <= 3; ++n) box_.put(1, n);
  settle();
  for (std::uint64_t n = 1; n <= 3; ++n)
    for (const ScriptedTier* tier : tiers_) EXPECT_TRUE(tier->probe(chunk(n))) << n;
  EXPECT_EQ(tiers_[0]->puts, 3U) << "and once";
  EXPECT_EQ(tiers_[1]->puts, 3U);
}

TEST_F(TwoTierWritersTest, ChunkRefusedByTheBackendIsOnTheDisk) {
  begin({.through = true}, rules(config::BackendWrite::kAll));
  tiers_[1]->refusal = {Code::kUnavailable, "no connection to the server"};
  for (std::uint64_t n = 1; n <= 3; ++n) box_.put(1, n);
  settle();
  EXPECT_EQ(tiers_[0]->puts, 3U);
  for (std::uint64_t n = 4; n <= 3 * kSlots; ++n)
    EXPECT_EQ(box_.put(1, n).status, 0U) << "memory does not wait";
  tiers_[1]->refusal = {};
  settle();
  EXPECT_TRUE(tiers_[1]->probe(chunk(3 * kSlots)));
}

TEST_F(TwoTierWritersTest, BackendWriteRules) {
  begin({}, rules(config::BackendWrite::kPopular));
  const protocol::Grant used = box_.put(1, 1);
  box_.put(1, 2);
  settle();
  EXPECT_EQ(tiers_[1]->puts, 0U) << "seen once";
  box_.store().touch(used.slot, used.generation);
  settle();
  EXPECT_TRUE(tiers_[1]->probe(chunk(1)));
  EXPECT_EQ(tiers_[1]->puts, 1U);
  down_[1].reset();
  begin({}, rules(config::BackendWrite::kEvicted));
  settle();
  EXPECT_EQ(tiers_[1]->puts, 1U) << "there is room in memory";
  for (std::uint64_t n = 3; n <= kSlots; ++n) box_.put(1, n);
  settle();
  EXPECT_TRUE(tiers_[1]->probe(chunk(2)));
  EXPECT_FALSE(tiers_[1]->probe(chunk(kSlots)));
}

TEST_F(TwoTierWritersTest, BudgetBoundsBytesWrittenASecond) {
  begin({.through = true}, rules(config::BackendWrite::kAll, 2 * StoreBox::kSlotBytes));
  for (std::uint64_t n = 1; n <= 8; ++n) box_.put(1, n);
  settle();
  EXPECT_EQ(tiers_[0]->puts, 8U) << "the disk has no chunk";
  EXPECT_EQ(tiers_[1]->puts, 2U);
  clock_.advance_ms(999);
  settle();
  EXPECT_EQ(tiers_[1]->puts, 4U);
  clock_.advance_ms(10'000);
  settle();
  EXPECT_EQ(tiers_[1]->puts, 6U) << "an unused budget is not saved";
  clock_.advance_ms(1000);
  settle();
  EXPECT_EQ(tiers_[1]->puts, 8U);
}

// Ten times the budget of a second goes at once, and no other chunk for ten seconds.
TEST_F(TwoTierWritersTest, ChunkOverTheBudgetIsPaidBackLater) {
  begin({}, rules(config::BackendWrite::kAll, StoreBox::kSlotBytes / 10));
  box_.put(1, 1);
  box_.put(1, 2);
  settle();
  EXPECT_EQ(tiers_[1]->puts, 1U);
  clock_.advance_ms(9000);
  settle();
  EXPECT_EQ(tiers_[1]->puts, 1U);
  clock_.advance_ms(1000);
  settle();
  EXPECT_EQ(tiers_[1]->puts, 2U);
}

TEST_F(TwoTierWritersTest, DropReachesBothTiersFirst) {
  begin({}, rules(config::BackendWrite::kAll));
  box_.put(1, 1);
  settle();
  box_.drop(box_.handle());
  for (const ScriptedTier* tier : tiers_) EXPECT_EQ(tier->drops.size(), 1U);
}

// This larderd does not know the chunks of others there.
TEST_F(TwoTierWritersTest, ExplicitEvictionReachesTheBackendForUnknownChunks) {
  begin({}, rules(config::BackendWrite::kAll));
  const std::vector hashes{box_.key(5).hash};
  EXPECT_EQ(box_.store().families().evict(box_.handle(), hashes).absent, 1U);
  EXPECT_TRUE(tiers_[0]->evicted.empty());
  EXPECT_EQ(tiers_[1]->evicted.size(), 2U) << "of both shards";
  tiers_[1]->refusal = {Code::kUnavailable, "no connection to the server"};
  EXPECT_EQ(box_.store().families().evict(box_.handle(), hashes).refused, 1U);
}

TEST_F(TwoTierWritersTest, DamagedChunkIsRemovedFromBothTiers) {
  begin({.through = true}, rules(config::BackendWrite::kAll));
  const protocol::Grant grant = box_.put(1, 1);
  settle();
  tiers_[1]->stored.clear();  // the chunk is not known there any more, and may be there
  box_.arena()[grant.offset_bytes] ^= std::byte{1};
  box_.store().report_bad({grant.slot, 0, grant.generation});
  box_.store().verify_next();
  EXPECT_EQ(tiers_[0]->forgotten, std::vector{chunk(1)});
  EXPECT_EQ(tiers_[1]->evicted, std::vector{chunk(1)});
}

// A chunk from one tier goes to the other with its time.
TEST_F(TwoTierWritersTest, PromotedChunkKeepsItsTtlInTheOtherTier) {
  config::BackendConfig backend;
  backend.ttl_s = 1000;
  begin({}, rules_for(backend));
  const auto now_s = static_cast<std::uint32_t>(ChunkAge::unix_ns() / 1'000'000'000);
  std::uint64_t n = 50;
  for (const std::uint32_t since_s : {now_s - 900, now_s - 2000, 0U}) {
    const protocol::Grant grant = box_.store().promote(box_.key(++n), 4096, 4096);
    ASSERT_TRUE(
        box_.store().promoted({grant.slot, 0, grant.generation}, n, links_[0]->number(), since_s));
  }
  settle();
  ASSERT_TRUE(tiers_[1]->probe(chunk(51)));
  EXPECT_NEAR(tiers_[1]->probe(chunk(51))->since_s, now_s - 900, 1);
  EXPECT_FALSE(tiers_[1]->probe(chunk(52))) << "its time is over";
  EXPECT_FALSE(tiers_[1]->probe(chunk(53))) << "nobody knows";
}

// A server reports its lost keys once it is back, not when it goes.
TEST_F(TwoTierWritersTest, ChunksLostDuringAnOutageAreRewritten) {
  begin({}, rules(config::BackendWrite::kAll));
  for (std::uint64_t n = 1; n <= 3; ++n) box_.put(1, n);
  settle();
  tiers_[1]->refusal = {Code::kUnavailable, "no connection to the server"};
  settle();
  tiers_[1]->stored.clear();
  tiers_[1]->refusal = {};
  settle();
  EXPECT_EQ(tiers_[1]->puts, 6U);
  EXPECT_EQ(tiers_[0]->puts, 0U);
}

}  // namespace
}  // namespace larder::tiering::testing_support
