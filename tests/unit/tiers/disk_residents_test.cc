// A listener knows the chunks on the disk, after every event.
#include "tests/unit/tiers/disk_world.h"
#include "tests/unit/tiers/listener.h"

namespace larder::disk::testing_support {
namespace {

using tiers::testing_support::Listener;

class DiskResidentsTest : public DiskWorld {
 protected:
  DiskResidentsTest() { options_.residents = listener_; }
  void SetUp() override { ASSERT_TRUE(open().ok()); }

  std::set<std::uint64_t> probed(std::uint64_t most) const {
    std::set<std::uint64_t> found;
    for (std::uint64_t i = 0; i <= most; ++i)
      if (tier_->probe(key_of(i))) found.insert(i);
    return found;
  }

  std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
};

TEST_F(DiskResidentsTest, PutsEvictionsAndRestartsAreReported) {
  for (std::uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(loop_->put(i).ok());  // more than fit
  EXPECT_EQ(listener_->there(), probed(40));
  EXPECT_LT(listener_->there().size(), 40U);
  ASSERT_TRUE(loop_->put(39, 2).ok());
  EXPECT_TRUE(listener_->there().contains(39)) << "stored anew";
  listener_ = std::make_shared<Listener>();
  options_.residents = listener_;
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(listener_->there(), probed(40));
  EXPECT_GT(listener_->there().size(), 10U);
}

TEST_F(DiskResidentsTest, DropsDamageAndLostDirectoriesAreReported) {
  for (std::uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(loop_->put(i, 1, 1 + i % 2).ok());
  ASSERT_TRUE(loop_->drop(1).ok());
  EXPECT_EQ(listener_->there(), (std::set<std::uint64_t>{1, 3, 5}));
  tier_->forget(key_of(3, 2), 1);
  ASSERT_TRUE(await([&] { return !listener_->there().contains(3); }));
  std::filesystem::rename(options_.path + "/larder", options_.path + "/away");
  ASSERT_TRUE(await([&] { return listener_->there().empty(); }));
}

// Or engines would hear for ever that the chunk is there, and fetch the chunk each time.
TEST_F(DiskResidentsTest, ProbedExpiredChunkIsNoLongerReported) {
  options_.ttl_s = 3600;
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(loop_->put(1).ok());
  ASSERT_TRUE(loop_->put(2).ok());
  env_.faults.clock_offset_s = 4000;
  EXPECT_FALSE(tier_->probe(key_of(1)));
  EXPECT_TRUE(await([&] { return listener_->there() == std::set<std::uint64_t>{2}; }));
}

}  // namespace
}  // namespace larder::disk::testing_support
