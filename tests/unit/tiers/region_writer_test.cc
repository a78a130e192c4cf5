#include "sidecar/tiers/disk/region_writer.h"

#include "tests/unit/tiers/engine_parts.h"

namespace larder::disk {
namespace {

class RegionWriterTest : public testing_support::EngineParts {
 protected:
  RegionState state(std::uint32_t region) const { return table_[region].state; }
  // Opens the oldest region for appends.
  std::uint32_t opened() {
    writer_.maintain(true, false);
    end_one();
    end_one();
    return writer_.place(3).value_or(kRegions);
  }

  RegionWriter writer_{file_, probe_};
};

TEST_F(RegionWriterTest, OldestRegionIsClearedAfterTheNewTrailerIsSynced) {
  const Record record = stored(1, 0, 8);
  writer_.maintain(false, false);
  EXPECT_TRUE(env_.requests.empty()) << "no put waits";
  writer_.maintain(true, false);
  EXPECT_EQ(end_one().offset, file_.volume()->offset(0, kBlocks - 1));
  EXPECT_TRUE(finds(record));
  EXPECT_FALSE(writer_.place(3).has_value());
  EXPECT_EQ(end_one().kind, IoRequest::Kind::kSync);
  EXPECT_FALSE(finds(record));
  EXPECT_EQ(file_.counters().chunks_evicted, 1U);
  EXPECT_EQ(state(0), RegionState::kReady);
  table_[0].reads = 1;
  EXPECT_FALSE(writer_.place(3).has_value()) << "still read";
  table_[0].reads = 0;
  EXPECT_EQ(writer_.place(3), 0U);
  EXPECT_EQ(state(0), RegionState::kActive);
}

TEST_F(RegionWriterTest, FullRegionIsSyncedBeforeItsFooter) {
  ASSERT_EQ(opened(), 0U);
  stored(1, 0, 0);
  table_[0].next_block = kBlocks - 3;
  EXPECT_EQ(opened(), 1U);
  EXPECT_EQ(state(0), RegionState::kClosing);
  table_[0].writes = 1;
  writer_.maintain(false, false);
  EXPECT_EQ(env_.requests.size(), 1U) << "the next region; an append is on its way to region 0";
  table_[0].writes = 0;
  writer_.maintain(false, false);
  ASSERT_EQ(env_.requests.size(), 2U);
  end_one();
  EXPECT_EQ(end_one().kind, IoRequest::Kind::kSync);
  EXPECT_EQ(end_one().kind, IoRequest::Kind::kSync) << "of the next region's trailer";
  const IoRequest footer = end_one();
  EXPECT_EQ(footer.offset + footer.bytes(), file_.volume()->offset(0, kBlocks));
  EXPECT_EQ(footer.bytes(), std::uint64_t{footer_blocks(1)} * kBlockBytes);
  EXPECT_EQ(state(0), RegionState::kClosed);
}

TEST_F(RegionWriterTest, CloseWaitsForPutsOfTheActiveRegion) {
  ASSERT_EQ(opened(), 0U);
  stored(1, 0, 0);
  table_[1].state = RegionState::kReady;
  writer_.maintain(true, true);
  EXPECT_EQ(state(0), RegionState::kActive);
  writer_.maintain(false, true);
  EXPECT_EQ(state(0), RegionState::kClosing);
}

TEST_F(RegionWriterTest, OpeningARegionClearsWriteErrorsUnlessAnotherFailed) {
  probe_.write_failed(EIO);
  writer_.maintain(false, false);
  file_.health().clear(Health::kWrites);
  probe_.write_failed(EIO);
  end_one();
  end_one();
  EXPECT_TRUE(file_.health().is(Health::kWrites)) << "the attempt began before the last failure";
  EXPECT_EQ(state(0), RegionState::kFree);
  clock_.advance_ms(10'000);
  writer_.maintain(false, false);
  end_one();
  end_one();
  EXPECT_FALSE(file_.health().is(Health::kWrites));
  EXPECT_EQ(state(0), RegionState::kReady);
}

}  // namespace
}  // namespace larder::disk
