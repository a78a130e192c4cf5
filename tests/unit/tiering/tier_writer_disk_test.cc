// Writes to a real disk tier whose device fails, is full, or does not answer.
#include <filesystem>

#include "sidecar/tiering/tier_writer.h"
#include "sidecar/tiers/disk/disk_tier.h"
#include "tests/unit/store/store_fixture.h"
#include "tests/unit/tiers/faulty_env.h"

namespace larder::tiering::testing_support {
namespace {

using store::testing_support::StoreBox;

class TierWriterDiskTest : public testing::Test {
 protected:
  TierWriterDiskTest() {
    char name[] = "/tmp/larder-down-XXXXXX";
    options_.path = ::mkdtemp(name);
    options_.size_bytes = 34 << 20;
    options_.stall_ms = 200;
    options_.retry_ms = 10;
    options_.check_ms = 20;
    box_.add_session(1);
    auto tier = disk::open_disk_tier(env_, clock_, options_);
    EXPECT_TRUE(tier.ok()) << tier.status().to_string();
    link_ = std::make_unique<TierLink>(TierKind::kDisk, std::move(*tier), options_.path);
    config::DiskConfig config;
    config.write = config::DiskWrite::kThrough;
    down_ = std::make_unique<TierWriter>(*link_, box_.store(), clock_, rules_for(config),
                                         32 * StoreBox::kSlotBytes);
  }
  ~TierWriterDiskTest() override {
    env_.faults.stalled = false;
    down_.reset();
    link_.reset();
    std::filesystem::remove_all(options_.path);
  }
  bool await(const std::function<bool()>& what) {
    for (int i = 0; i < 500 && !what(); ++i) {
      down_->tick();
      link_->wait(20);
    }
    return what();
  }
  bool is_below(std::uint64_t n) const {
    const protocol::Key key = box_.key(n);
    return link_->tier()
        .probe({protocol::namespace_id("field: a\n"), key.hash, key.shard, key.group})
        .has_value();
  }
  std::uint64_t below(std::uint64_t from, std::uint64_t to) const {
    std::uint64_t count = 0;
    for (std::uint64_t n = from; n <= to; ++n) count += is_below(n);
    return count;
  }
  stats::TierStats disk() const {
    stats::TierStats stats;
    link_->fill(stats);
    return stats;
  }
  std::uint64_t kept() { return box_.filled().kept_bytes; }

  base::MonotonicClock clock_;
  disk::testing_support::FaultyEnv env_;
  disk::DiskOptions options_;
  StoreBox box_{32};
  std::unique_ptr<TierLink> link_;
  std::unique_ptr<TierWriter> down_;
};

// covers F-133
TEST_F(TierWriterDiskTest, FullDeviceIsRetriedWithoutMemoryLoss) {
  for (std::uint64_t n = 1; n <= 4; ++n) box_.put(1, n);
  ASSERT_TRUE(await([&] { return below(1, 4) == 4; }));
  env_.faults.error = ENOSPC;
  env_.faults.all_writes_fail = true;
  for (std::uint64_t n = 5; n <= 8; ++n) box_.put(1, n);
  ASSERT_TRUE(await([&] { return !disk().takes_puts; }));
  EXPECT_EQ(disk().reason, "writes fail: No space left on device");
  EXPECT_TRUE(await([&] { return kept() == 0; }));
  EXPECT_EQ(below(1, 8), 4U) << "a failed write is never visible";
  for (std::uint64_t n = 1; n <= 8; ++n) EXPECT_TRUE(box_.find(n)) << n;
  env_.faults.all_writes_fail = false;
  EXPECT_TRUE(await([&] { return below(1, 8) == 8; }));
  EXPECT_TRUE(disk().takes_puts);
}

// covers F-135
TEST_F(TierWriterDiskTest, SlotBeingReadByStalledDeviceIsNotReused) {
  box_.put(1, 100);
  ASSERT_TRUE(await([&] { return is_below(100); })) << "a region is open";
  env_.faults.stalled = true;
  box_.put(1, 1);
  down_->tick();
  ASSERT_EQ(kept(), StoreBox::kSlotBytes);
  ASSERT_TRUE(await([&] { return !disk().takes_puts; }));
  for (std::uint64_t n = 2; n < 80; ++n) box_.put(1, n);
  EXPECT_TRUE(box_.find(1));
  EXPECT_EQ(kept(), StoreBox::kSlotBytes);
  const std::uint64_t from_ns = clock_.now_ns();
  env_.faults.stalled = false;
  EXPECT_TRUE(await([&] { return is_below(1) && kept() == 0; }));
  EXPECT_LT(clock_.now_ns() - from_ns, 5'000'000'000U);
}

// covers F-142
TEST_F(TierWriterDiskTest, StopDoesNotWaitForAStalledDevice) {
  env_.faults.stalled = true;
  for (std::uint64_t n = 1; n <= 20; ++n) box_.put(1, n);
  const std::uint64_t from_ns = clock_.now_ns();
  down_->finish(from_ns + 20'000'000'000);
  EXPECT_LT(clock_.now_ns() - from_ns, 10'000'000'000U);
}

}  // namespace
}  // namespace larder::tiering::testing_support
