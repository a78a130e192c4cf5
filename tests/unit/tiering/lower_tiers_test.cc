// The tiers below one memory for the loop: a request to all reaches all, and a request to one
// reaches that one.
#include "sidecar/tiering/lower_tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/store/store_fixture.h"
#include "tests/unit/tiering/held_tier.h"
#include "tests/unit/tiering/scripted_tier.h"

namespace larder::tiering::testing_support {
namespace {

using store::testing_support::StoreBox;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;

constexpr store::TierNumber kDisk = 0, kPeers = 1, kBackend = 2;

class LowerTiersTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSlots = 16;
  LowerTiersTest() { box_.add_session(1); }

  template <typename Kind>
  Kind& add(TierKind kind) {
    auto tier = std::make_unique<Kind>();
    Kind& added = *tier;
    tiers_.push_back({std::make_unique<TierLink>(kind, std::move(tier), "/a place"),
                      *ResidencyFilter::create(0)});
    return added;
  }
  LowerTiers& open() {
    below_ =
        std::make_unique<LowerTiers>(std::move(tiers_), config_, box_.store(), box_.stats(), clock_,
                                     std::span(box_.arena(), kSlots * StoreBox::kSlotBytes));
    return *below_;
  }
  void probe(std::uint32_t request, std::uint32_t deadline_ms = 1000) {
    const std::vector hashes{box_.key(1).hash};
    ASSERT_TRUE(
        below_->probes()->probe(1, request, {box_.handle(), deadline_ms, 1, 0}, hashes).ok());
    while (below_->go_on()) {
    }
  }
  std::size_t answers() { return below_->probes()->take_answers().size(); }

  base::ManualClock clock_;
  config::Config config_;
  StoreBox box_{kSlots};
  std::vector<OpenTier> tiers_;
  std::unique_ptr<LowerTiers> below_;
};

TEST_F(LowerTiersTest, MessagesAreRoutedByTier) {
  add<HeldTier>(TierKind::kDisk);
  HeldTier& backend = add<HeldTier>(TierKind::kBackend);
  open();
  probe(7);
  ASSERT_EQ(backend.probes().size(), 1U);
  backend.finish_probe();
  below_->deliver(kDisk);
  EXPECT_EQ(answers(), 0U);
  below_->deliver(kBackend);
  EXPECT_EQ(answers(), 1U);
}

// The prefix goes on from one tier to the other: neither has all of it.
TEST_F(LowerTiersTest, PeersAndBackendAreProbedInParallel) {
  HeldTier& peers = add<HeldTier>(TierKind::kPeers);
  HeldTier& backend = add<HeldTier>(TierKind::kBackend);
  open();
  const auto put = [&](HeldTier& tier, std::uint64_t n) {
    const protocol::NamespaceId id = box_.store().namespaces().at(box_.handle()).spec.id;
    for (const protocol::Key& key : {box_.key(n), box_.sibling(n)})
      tier.store({id, key.hash, key.shard, key.group}, {n, 4096, 4096, n},
                 std::vector<std::byte>(StoreBox::kSlotBytes));
  };
  put(peers, 1);
  put(backend, 1);
  put(backend, 2);
  put(peers, 3);
  const std::vector hashes{box_.key(1).hash, box_.key(2).hash, box_.key(3).hash, box_.key(4).hash};
  ASSERT_TRUE(below_->probes()->probe(1, 7, {box_.handle(), 1000, 4, 0}, hashes).ok());
  while (below_->go_on()) {
  }
  ASSERT_TRUE(peers.probes().size() == 1 && backend.probes().size() == 1);
  EXPECT_EQ(peers.probes().front().keys, backend.probes().front().keys);
  peers.finish_probe();
  below_->deliver(kPeers);
  EXPECT_EQ(answers(), 0U) << "the backend has not answered";
  backend.finish_probe();
  below_->deliver(kBackend);
  const std::vector<TierProbes::Answer> told = below_->probes()->take_answers();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].probed.families, 3U);
  EXPECT_EQ(told[0].probed.shared, 3U);
  EXPECT_EQ(told[0].probed.reason, static_cast<std::uint32_t>(protocol::ProbeEnd::kAll));
}

TEST_F(LowerTiersTest, FailedTierKeepsTheAnswerOfTheOther) {
  HeldTier& peers = add<HeldTier>(TierKind::kPeers);
  HeldTier& backend = add<HeldTier>(TierKind::kBackend);
  open();
  peers.degrade();
  probe(7);
  backend.finish_probe();
  below_->deliver(kBackend);
  const std::vector<TierProbes::Answer> told = below_->probes()->take_answers();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].probed.reason, static_cast<std::uint32_t>(protocol::ProbeEnd::kAll));
}

// Another larderd's chunks are neither written nor dropped by this one.
TEST_F(LowerTiersTest, PeersAreReadOnly) {
  ScriptedTier& peers = add<ScriptedTier>(TierKind::kPeers);
  ScriptedTier& backend = add<ScriptedTier>(TierKind::kBackend);
  open();
  box_.put(1, 1);
  below_->tick(false);
  EXPECT_EQ(peers.puts, 0U);
  EXPECT_EQ(backend.puts, 1U);
  EXPECT_EQ(below_->drop(protocol::namespace_id("field: a\n")).parts.size(), 1U);
  below_->finish(clock_.now_ns() + 1'000'000'000);
  EXPECT_TRUE(peers.closed);
}

// A drop once left the offers of peers, and a fetch within 2 s loaded the dropped chunks again.
// covers F-276
TEST_F(LowerTiersTest, DropAndEvictionReachReadOnlyTiers) {
  ScriptedTier& peers = add<ScriptedTier>(TierKind::kPeers);
  open();
  const protocol::NamespaceId id = box_.store().namespaces().at(box_.handle()).spec.id;
  EXPECT_TRUE(below_->drop(id).parts.empty()) << "nobody waits for it";
  ASSERT_EQ(peers.drops.size(), 1U);
  EXPECT_EQ(peers.drops[0], id);
  store::Drop one{.handle = box_.handle()}, all;
  for (store::Drop* drop : {&one, &all})
    while (!drop->done) box_.store().drop(*drop);
  ASSERT_EQ(peers.drops.size(), 3U) << "each drop once";
  EXPECT_EQ(peers.drops[1], id);
  EXPECT_FALSE(peers.drops[2].has_value());
  box_.store().tiers().evict_from_lower_tiers(box_.handle(), box_.key(1).hash);
  EXPECT_FALSE(peers.evicted.empty());
  box_.put(1, 1);
  box_.store().tiers().count_lost(box_.find(1)->slot);
  EXPECT_EQ(box_.stats().evicted_not_admitted + box_.stats().evicted_unwritten, 0U)
      << "no chunk is written there";
}

TEST_F(LowerTiersTest, DiskWithoutOtherTiersIsNotProbed) {
  add<HeldTier>(TierKind::kDisk);
  EXPECT_EQ(open().probes(), nullptr);
  EXPECT_EQ(below_->next_deadline_ns(), UINT64_MAX);
}

TEST_F(LowerTiersTest, ProbeEndsAtItsDeadlineAndWithItsSession) {
  HeldTier& backend = add<HeldTier>(TierKind::kBackend);
  open();
  probe(7, 5);
  EXPECT_EQ(below_->next_deadline_ns(), clock_.now_ns() + 5'000'000);
  clock_.advance_ms(5);
  below_->miss_deadlines();
  EXPECT_EQ(answers(), 1U);
  probe(8);
  below_->end_session(1);
  backend.finish_probe();
  backend.finish_probe();
  below_->deliver(kBackend);
  EXPECT_EQ(answers(), 0U);
  EXPECT_EQ(below_->next_deadline_ns(), UINT64_MAX);
}

TEST_F(LowerTiersTest, TickRetriesProbesRefusedAsFull) {
  HeldTier& backend = add<HeldTier>(TierKind::kBackend);
  open();
  backend.most_probes = 0;
  probe(7);
  backend.most_probes = 1;
  below_->tick(false);
  EXPECT_EQ(backend.probes().size(), 1U);
}

TEST_F(LowerTiersTest, EachTierHasItsOwnWriteRules) {
  ScriptedTier& disk = add<ScriptedTier>(TierKind::kDisk);
  ScriptedTier& backend = add<ScriptedTier>(TierKind::kBackend);
  open();  // as the defaults are: ahead of eviction, and at once
  box_.put(1, 1);
  below_->tick(false);
  EXPECT_EQ(disk.puts, 0U) << "there is room in memory";
  EXPECT_EQ(backend.puts, 1U);
}

TEST_F(LowerTiersTest, ChunksWithPendingDropAreNotProbed) {
  ScriptedTier& backend = add<ScriptedTier>(TierKind::kBackend);
  open();
  const auto reason = [this](std::uint32_t request) {
    probe(request);
    return static_cast<protocol::ProbeEnd>(below_->probes()->take_answers().at(0).probed.reason);
  };
  EXPECT_EQ(reason(7), protocol::ProbeEnd::kFailed) << "it takes no looks";
  backend.refusal = {Code::kResourceExhausted, "no room for a drop"};
  below_->drop(protocol::namespace_id("field: a\n"));
  backend.refusal = {};
  EXPECT_EQ(reason(8), protocol::ProbeEnd::kAll);
}

// Of any tier: the chunk is written there, and a fetch of the chunk ends before its first chunk.
// covers F-130
TEST_F(LowerTiersTest, ChunksTooLargeToPromoteAreReportedWithRemedy) {
  add<HeldTier>(TierKind::kBackend);
  open();
  const auto said = [this] {
    below_->tick(false);
    stats::Stats view;
    below_->fill(view);
    EXPECT_EQ(view.fallbacks.size(), view.backend.reason.empty() ? 0U : 1U);
    return view.backend.reason;
  };
  EXPECT_EQ(said(), "");
  // 20 KiB for each of two shards; a quarter of memory has 32
  const std::uint32_t large = box_.open("field: large\n", 16'384);
  EXPECT_THAT(said(), testing::AllOf(testing::HasSubstr("memory.size: "),
                                     testing::HasSubstr("Set memory.size to at least 1 MiB")));
  box_.store().join_namespace(large);
  box_.store().leave_namespace(large);
  EXPECT_EQ(said(), "") << "it is closed, and no chunk of it is left";
}

// A put that has ended makes room for the next one: without a tick.
TEST_F(LowerTiersTest, TierMessageStartsTheNextWrites) {
  ScriptedTier& backend = add<ScriptedTier>(TierKind::kBackend);
  open();
  backend.hold_back = true;
  for (std::uint64_t n = 1; n <= 8; ++n) box_.put(1, n);
  below_->tick(false);
  const std::size_t first = backend.puts;
  ASSERT_LT(first, 8U) << "an eighth of the memory at once";
  backend.answer_held();
  below_->deliver(kBackend);
  EXPECT_GT(backend.puts, first);
}

TEST_F(LowerTiersTest, DropIsPendingUntilEveryTierConfirms) {
  ScriptedTier& disk = add<ScriptedTier>(TierKind::kDisk);
  ScriptedTier& backend = add<ScriptedTier>(TierKind::kBackend);
  open();
  disk.hold_back = backend.hold_back = true;
  const protocol::NamespaceId id = protocol::namespace_id("field: a\n");
  EXPECT_EQ(below_->drop(id).parts.size(), 2U);
  EXPECT_TRUE(disk.drops.size() == 1 && backend.drops.size() == 1);
  std::vector<PendingDrop> under_way = below_->drops_under_way(id);
  ASSERT_EQ(under_way.size(), 2U);
  EXPECT_TRUE(!under_way[0].shared && under_way[1].shared);
  disk.answer_held();
  below_->deliver(kDisk);
  under_way = below_->drops_under_way(id);
  ASSERT_EQ(under_way.size(), 1U);
  EXPECT_TRUE(under_way[0].shared);
}

TEST_F(LowerTiersTest, StopEndsEveryTier) {
  ScriptedTier& disk = add<ScriptedTier>(TierKind::kDisk);
  ScriptedTier& backend = add<ScriptedTier>(TierKind::kBackend);
  open();
  box_.put(1, 1);
  below_->finish(clock_.now_ns() + 1'000'000'000);
  for (const ScriptedTier* tier : {&disk, &backend}) {
    EXPECT_EQ(tier->puts, 1U);
    EXPECT_TRUE(tier->closed);
  }
}

TEST_F(LowerTiersTest, DegradedTierIsReported) {
  add<ScriptedTier>(TierKind::kDisk);
  ScriptedTier& backend = add<ScriptedTier>(TierKind::kBackend);
  open();
  stats::Stats view;
  below_->fill(view);
  EXPECT_TRUE(view.disk.serving && view.backend.serving);
  EXPECT_TRUE(view.fallbacks.empty());
  backend.refusal = {Code::kUnavailable, "no connection"};
  backend.away = true;
  view = {};
  below_->fill(view);
  EXPECT_TRUE(view.disk.serving && !view.backend.serving);
  EXPECT_THAT(view.fallbacks, ElementsAre(AllOf(Field(&stats::Fallback::kind, "backend"),
                                                Field(&stats::Fallback::why, "no connection"))));
}

}  // namespace
}  // namespace larder::tiering::testing_support
