// Admin verbs slice by slice, between which the test changes the store as sessions do.
#include "sidecar/loop/admin_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/store/store_fixture.h"
#include "tests/unit/tiering/scripted_tier.h"

namespace larder::loop::testing_support {
namespace {

using store::testing_support::StoreBox;
using tiering::testing_support::ScriptedTier;

constexpr std::uint64_t kSlots = 16;

class AdminDropTest : public testing::Test {
 protected:
  AdminDropTest() {
    box_.add_session(1);
    auto tier = std::make_unique<ScriptedTier>();
    tier_ = tier.get();
    std::vector<tiering::OpenTier> tiers;
    tiers.push_back(
        {std::make_unique<tiering::TierLink>(tiering::TierKind::kDisk, std::move(tier), "/a place"),
         *tiering::ResidencyFilter::create(0)});
    below_.emplace(std::move(tiers), config_, store_, box_.stats(), clock_,
                   std::span(box_.arena(), kSlots * StoreBox::kSlotBytes));
    admin_.emplace(store_, tracker_, &*below_, loop_stats_, clock_, [] {});
  }
  // Runs `between` after each slice.
  Result<std::uint64_t> drop(const std::string& text, const std::function<void()>& between) {
    std::optional<Result<std::uint64_t>> dropped;
    std::atomic<bool> ended = false;
    std::thread caller([&] {
      dropped = admin_->drop_namespace(protocol::namespace_id(text).to_hex(), 60'000);
      ended = true;
    });
    while (!ended) {
      if (admin_->go_on()) between();
      below_->deliver(0);
      std::this_thread::yield();
    }
    caller.join();
    return *dropped;
  }
  protocol::Key key(std::uint32_t handle, std::uint64_t n = 1) const {
    return {box_.key(n).hash, handle, 0, 0};
  }
  std::uint32_t open_with_chunk(const std::string& text) {
    const std::uint32_t handle = box_.open(text);
    EXPECT_EQ(box_.put(1, key(handle)).status, 0U);
    return handle;
  }

  base::ManualClock clock_;
  config::Config config_;
  StoreBox box_{kSlots};
  store::Store& store_ = box_.store();
  session::ReuseTracker tracker_{1 << 20, store_.namespaces()};
  LoopStats loop_stats_{"test", 1, memory::ArenaFile(), 0};
  ScriptedTier* tier_ = nullptr;
  std::optional<tiering::LowerTiers> below_;
  std::optional<AdminCommands> admin_;
};

TEST_F(AdminDropTest, StatesAndTailsOnlyInLowerTiersAreDroppedWithTheirNamespace) {
  open_with_chunk("a: 1\n");
  const Result<std::uint64_t> dropped = drop("a: 1\n", [] {});
  ASSERT_TRUE(dropped.ok()) << dropped.status().to_string();
  EXPECT_THAT(tier_->drops,
              testing::UnorderedElementsAre(protocol::namespace_id("a: 1\n"),
                                            protocol::namespace_id("a: 1\nchunks: states\n"),
                                            protocol::namespace_id("a: 1\nchunks: tails\n")));
  tier_->drops.clear();
  open_with_chunk("a: 2\nchunks: states\n");
  ASSERT_TRUE(drop("a: 2\nchunks: states\n", [] {}).ok());
  EXPECT_THAT(tier_->drops, testing::ElementsAre(protocol::namespace_id("a: 2\nchunks: states\n")))
      << "a drop of states alone";
}

TEST_F(AdminDropTest, PlaceIsNotReusedBeforeTheLastSlice) {
  open_with_chunk("a: 1\n");
  const std::uint32_t states = open_with_chunk("a: 1\nchunks: states\n");
  std::uint32_t other = 0;
  int slices = 0;
  const Result<std::uint64_t> dropped = drop("a: 1\n", [&] {
    if (++slices != 1) return;
    const protocol::BlockHash hash = key(states).hash;
    // the last state, for room
    ASSERT_EQ(store_.families().evict(states, std::span(&hash, 1)).found, 1U);
    other = open_with_chunk("b: 1\n");
  });
  ASSERT_TRUE(dropped.ok()) << dropped.status().to_string();
  EXPECT_TRUE(box_.has(key(other)));
  EXPECT_THAT(tier_->drops,
              testing::UnorderedElementsAre(protocol::namespace_id("a: 1\n"),
                                            protocol::namespace_id("a: 1\nchunks: states\n"),
                                            protocol::namespace_id("a: 1\nchunks: tails\n")));
  EXPECT_FALSE(store_.namespaces().is_open(states)) << "the drop keeps no namespace open";
}

// Two layouts of one namespace, while the tier has no room for a drop: one drop serves both.
TEST_F(AdminDropTest, DropOfTwoLayoutsCountsChunksOnce) {
  const std::string states = "a: 1\nchunks: states\n";  // without a namespace beside
  open_with_chunk(states);
  std::string difference;
  store::NamespaceSpec spec = store::testing_support::make_spec(states);
  spec.shard_count = 1;
  const Result<std::uint32_t> second = store_.open_namespace(spec, &difference);
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  ASSERT_EQ(box_.put(1, key(*second, 2)).status, 0U);
  tier_->dropped = 7;
  tier_->refusal = {Code::kResourceExhausted, "no room for a drop"};
  int slices = 0;
  const Result<std::uint64_t> dropped = drop(states, [&] {
    if (++slices != 2) return;
    tier_->refusal = {};
    below_->tick(false);
  });
  ASSERT_TRUE(dropped.ok()) << dropped.status().to_string();
  EXPECT_EQ(*dropped, 7U);
}

}  // namespace
}  // namespace larder::loop::testing_support
