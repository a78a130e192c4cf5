// Models of different chunk sizes in one arena: room moves from one size to another, and is not
// lost between two sizes.
#include <random>

#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::GrantStatus;

// A key of a namespace whose chunks take 16 KiB of payload: slots of 20 KiB.
class DrainTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kLargePayload = 16384;
  explicit DrainTest(std::uint64_t slots = 64) : box_(slots), region_(box_.add_session(1)) {
    large_ = box_.open("field: large\n", kLargePayload);
  }
  protocol::Key large(std::uint64_t n) const {
    protocol::Key key = box_.key(n);
    key.namespace_handle = large_;
    return key;
  }

  StoreBox box_;
  protocol::SessionRegion& region_;
  std::uint32_t large_ = 0;
};

// covers F-060
TEST_F(DrainTest, BothSizesShareTheArena) {
  for (std::uint64_t n = 0; n < 64; ++n) box_.put(1, n);
  EXPECT_EQ(box_.put(1, large(100)).status, status_of(GrantStatus::kGranted));
  EXPECT_EQ(box_.put(1, large(101)).status, status_of(GrantStatus::kGranted));
  EXPECT_TRUE(box_.has(large(100)));
  EXPECT_LE(box_.stats().evicted_resized, 6U);
  std::uint64_t left = 0;
  for (std::uint64_t n = 0; n < 64; ++n) left += box_.find(n).has_value();
  EXPECT_EQ(left, 64 - box_.stats().evicted_resized);
}

// covers F-060
TEST_F(DrainTest, ColdestChunksAreDrained) {
  std::vector<protocol::Grant> grants;
  for (std::uint64_t n = 0; n < 64; ++n) grants.push_back(box_.put(1, n));
  for (std::uint64_t n = 0; n < 64; ++n)
    if (n < 30 || n >= 33) box_.store().touch(grants[n].slot, grants[n].generation);
  box_.put(1, large(100));
  for (std::uint64_t n = 0; n < 64; ++n)
    EXPECT_EQ(box_.find(n).has_value(), n < 30 || n >= 33) << n;
}

TEST_F(DrainTest, HeldOrPinnedChunksAreSkipped) {
  for (std::uint64_t n = 0; n < 32; ++n) {
    const protocol::Grant first = box_.put(1, box_.key(n));
    const protocol::Grant second = box_.put(1, box_.sibling(n));
    if (n != 0) continue;
    StoreBox::hold(region_, 0, first);
    StoreBox::hold(region_, 1, second);
  }
  const protocol::BlockHash pinned = box_.key(3).hash;
  ASSERT_EQ(box_.store().families().pin(box_.handle(), std::span(&pinned, 1)).found, 1U);
  EXPECT_EQ(box_.put(1, large(100)).status, status_of(GrantStatus::kGranted));
  for (const std::uint64_t n : {0, 3}) {
    EXPECT_TRUE(box_.has(box_.key(n)));
    EXPECT_TRUE(box_.has(box_.sibling(n)));
  }
}

// covers F-061
TEST_F(DrainTest, HeldChunkInEveryWindowBlocksSpaceUntilReleased) {
  std::vector<protocol::Grant> grants;
  for (std::uint64_t n = 0; n < 64; ++n) grants.push_back(box_.put(1, n));
  for (std::uint32_t n = 0; n < 64; n += 2) StoreBox::hold(region_, n, grants[n]);
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(box_.reserve(1, large(100)).status, status_of(GrantStatus::kNoSpace));
  for (std::uint32_t n = 0; n < 64; n += 2) EXPECT_TRUE(box_.find(n)) << "held";
  for (auto& hold : region_.holds) hold = 0;
  box_.store().sweep();
  EXPECT_EQ(box_.reserve(1, large(100)).status, status_of(GrantStatus::kGranted));
}

// Families whose first shards stand in the coldest part and are held by their second shards, which
// stand elsewhere: a drain begins and cannot end.
void begin_drain_that_waits(StoreBox& box, protocol::SessionRegion& region) {
  for (std::uint64_t n = 0; n < 32; ++n) box.put(1, box.key(n));
  for (std::uint32_t n = 0; n < 32; ++n) StoreBox::hold(region, n, box.put(1, box.sibling(n)));
}

TEST_F(DrainTest, ContinuesAfterTheHoldIsReleased) {
  begin_drain_that_waits(box_, region_);
  EXPECT_EQ(box_.reserve(1, large(100)).status, status_of(GrantStatus::kNoSpace));
  EXPECT_EQ(box_.filled().slots_committed, 64U);
  for (auto& hold : region_.holds) hold = 0;
  box_.store().sweep();
  EXPECT_LT(box_.filled().slots_committed, 64U) << "a tick went on with it";
  EXPECT_EQ(box_.reserve(1, large(100)).status, status_of(GrantStatus::kGranted));
}

TEST_F(DrainTest, PinningADrainedChunkEndsTheDrain) {
  begin_drain_that_waits(box_, region_);
  EXPECT_EQ(box_.reserve(1, large(100)).status, status_of(GrantStatus::kNoSpace));
  std::vector<protocol::BlockHash> all;
  for (std::uint64_t n = 0; n < 16; ++n) all.push_back(box_.key(n).hash);
  EXPECT_EQ(box_.store().families().pin(box_.handle(), all).found, 16U);
  for (auto& hold : region_.holds) hold = 0;
  EXPECT_EQ(box_.reserve(1, large(100)).status, status_of(GrantStatus::kGranted));
  for (std::uint64_t n = 0; n < 16; ++n) EXPECT_TRUE(box_.find(n)) << n;
}

TEST_F(DrainTest, ActiveSizeTakesSpaceFromAnIdleOne) {
  for (std::uint64_t n = 0; n < 64; ++n) box_.put(1, n);
  for (std::uint64_t n = 100; n < 400; ++n)
    ASSERT_EQ(box_.put(1, large(n)).status, status_of(GrantStatus::kGranted));
  const stats::Stats stats = box_.filled();
  EXPECT_GE(stats.slots_committed, 25U - 2) << "all but the idle size's room is used";
  std::uint64_t idle = 0;
  for (std::uint64_t n = 0; n < 64; ++n) idle += box_.find(n).has_value();
  EXPECT_LE(idle, 2U);
}

TEST_F(DrainTest, GenerationsNeverRepeatInReusedExtents) {
  std::map<std::uint64_t, std::uint64_t> last;  // offset -> generation
  std::uint64_t highest = 0;
  for (std::uint64_t n = 0; n < 2000; ++n) {
    const protocol::Grant grant = box_.put(1, n / 100 % 2 == 0 ? box_.key(n) : large(n));
    if (grant.status != 0) continue;
    EXPECT_GT(grant.generation, highest);
    highest = grant.generation;
    EXPECT_GT(grant.generation, last[grant.offset_bytes]);
    last[grant.offset_bytes] = grant.generation;
  }
}

// Slots so small that their numbers are used up before the arena is: there is a free span, and no
// slot can be cut from it.
TEST(SlotNumbers, ExhaustionEvictsTheColdestChunk) {
  StoreBox box(64, 1000, 16);
  box.add_session(1);
  for (std::uint64_t n = 0; n < 40; ++n)
    ASSERT_EQ(box.put(1, n).status, status_of(GrantStatus::kGranted)) << n;
  for (std::uint64_t n = 0; n < 40; ++n) EXPECT_EQ(box.find(n).has_value(), n >= 24) << n;
}

TEST(SlotNumbers, SizeWithoutNumbersTakesThemFromAnother) {
  StoreBox box(64, 1000, 16);
  protocol::SessionRegion& region = box.add_session(1);
  protocol::Key large = box.key(100);
  large.namespace_handle = box.open("field: large\n", 16384);
  std::vector<protocol::Grant> grants;
  for (std::uint64_t n = 0; n < 16; ++n) grants.push_back(box.put(1, n));
  for (std::uint32_t n = 0; n < 16; ++n) StoreBox::hold(region, n, grants[n]);
  EXPECT_EQ(box.reserve(1, large).status, status_of(GrantStatus::kNoSpace)) << "all are held";
  region.holds[3] = 0;
  EXPECT_EQ(box.reserve(1, large).status, status_of(GrantStatus::kGranted));
  for (std::uint64_t n = 0; n < 16; ++n) EXPECT_EQ(box.find(n).has_value(), n != 3) << n;
}

// Numbers only: an untouched arena, with 16 KiB for each MiB.
class MixedSizes {
 public:
  static constexpr std::uint64_t kUnit = 16 << 10;  // stands for 1 MiB
  explicit MixedSizes(std::uint64_t units)
      : shape_{units, IndexShape::buckets_for(units), units * kUnit, 1, 1},
        index_(zeroed_pages(shape_.bytes())),
        region_(zeroed_pages(sizeof(protocol::SessionRegion))),
        store_(shape_, index_.get(), nullptr, stats_) {
    store_.set_touched_bytes(shape_.arena_bytes);
    store_.sessions().add(1, *reinterpret_cast<protocol::SessionRegion*>(region_.get()));
    std::string difference;
    for (const std::uint64_t mib : {3, 20, 36, 80}) {
      const std::uint64_t slot = mib * kUnit;
      // with its table a whole number of units
      NamespaceSpec spec = make_spec("mib: " + std::to_string(mib), slot - 4096);
      spec.shard_count = 1;
      handles_.push_back(*store_.open_namespace(spec, &difference));
      sizes_.push_back(slot);
    }
  }

  // Stores chunks with these weights until the arena was turned over a few times; the mean share in
  // use after that.
  double churn(std::vector<int> weights) {
    std::mt19937_64 random(1);
    std::discrete_distribution<std::size_t> pick(weights.begin(), weights.end());
    double sum = 0;
    int looks = 0;
    std::uint64_t stored = 0;
    for (std::uint64_t at = 0; stored < 20 * shape_.arena_bytes; ++at) {
      const std::size_t size = pick(random);
      const std::uint64_t n = ++next_;
      const protocol::BlockHash hash{n * 0x9e3779b97f4a7c15ULL, n * 0xc2b2ae3d27d4eb4fULL + 1};
      protocol::Grant grant{};
      store_.reserve(1, {{}, handles_[size], 0, 0}, std::span(&hash, 1), std::span(&grant, 1));
      EXPECT_EQ(grant.status, status_of(GrantStatus::kGranted));
      store_.commit(1, {grant.slot, 0, grant.generation, 1});
      stored += sizes_[size];
      if (stored < 8 * shape_.arena_bytes || at % 16 != 0) continue;
      sum += used();
      ++looks;
    }
    return sum / looks;
  }
  double used() {
    stats::Stats stats = stats_;
    store_.fill(stats);
    std::uint64_t bytes = 0;
    for (const stats::SlotSizeStats& size : stats.slot_sizes) bytes += size.used * size.slot_bytes;
    return static_cast<double>(bytes) / static_cast<double>(shape_.arena_bytes);
  }

 private:
  IndexShape shape_;
  Memory index_;
  Memory region_;
  stats::Stats stats_;
  Store store_;
  std::vector<std::uint32_t> handles_;
  std::vector<std::uint64_t> sizes_;
  std::uint64_t next_ = 0;
};

// covers F-060
TEST(Utilisation, MixedSizesLeaveAtMostTwoPercentUnused) {
  for (const std::uint64_t gib : {8, 16}) {
    SCOPED_TRACE(std::to_string(gib) + " GiB");
    MixedSizes box(gib << 10);
    EXPECT_GE(box.churn({1, 1, 1, 1}), 0.98);
    EXPECT_GE(box.churn({30, 1, 1, 1}), 0.98);
    EXPECT_GE(box.churn({1, 1, 1, 10}), 0.98);
    EXPECT_GE(box.churn({1, 1, 1, 1}), 0.98);
  }
}

TEST(Utilisation, SingleActiveSizeLeavesAtMostTwoPercentUnused) {
  MixedSizes box(16 << 10);
  box.churn({1, 1, 1, 1});
  EXPECT_GE(box.churn({0, 0, 0, 1}), 0.985);
  EXPECT_GE(box.churn({0, 1, 0, 0}), 0.985);
}

}  // namespace
}  // namespace larder::store::testing_support
