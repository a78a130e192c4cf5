#include "sidecar/tiers/disk/tombstones.h"

#include "tests/unit/tiers/engine_parts.h"

namespace larder::disk {
namespace {

class TombstonesTest : public testing_support::EngineParts {
 protected:
  Tombstones tombstones_{file_, probe_};
};

TEST_F(TombstonesTest, TombstoneReplacesTheHeaderAndHoldsTheRegion) {
  const Record record = stored(1, 0, 8);
  tombstones_.bury(0, record);
  EXPECT_TRUE(tombstones_.empty());
  EXPECT_EQ(table_.next_victim(), 1U) << "region 0 is the oldest, but not opened under a write";
  ASSERT_EQ(env_.requests.size(), 1U);
  const IoRequest& request = env_.requests.front();
  EXPECT_EQ(request.kind, IoRequest::Kind::kWrite);
  EXPECT_EQ(request.offset, file_.volume()->offset(0, 8));
  EXPECT_EQ(request.bytes(), kBlockBytes);
  const std::optional<Record> grave = decode_record(file_.id_of(0), request.parts[0]);
  ASSERT_TRUE(grave.has_value());
  EXPECT_EQ(grave->blocks(), record.blocks());
  EXPECT_NE(*grave, record);
  end_one();
  EXPECT_EQ(table_.next_victim(), 0U);
}

TEST_F(TombstonesTest, FailedTombstoneIsRetriedAtMostEightTimes) {
  tombstones_.bury(0, stored(1, 0, 8));
  int tries = 0;
  for (; tries < 20 && !env_.requests.empty(); ++tries) {
    end_one(EIO);
    tombstones_.write();
    EXPECT_TRUE(env_.requests.empty()) << "writes fail";
    file_.health().clear(Health::kWrites);
    tombstones_.write();
  }
  EXPECT_EQ(tries, 8);
  EXPECT_TRUE(tombstones_.empty());
}

TEST_F(TombstonesTest, OpeningRegionIsAwaitedAndReopenedRegionNeedsNoTombstone) {
  table_[0].state = RegionState::kOpening;
  tombstones_.bury(0, stored(1, 0, 8));
  EXPECT_TRUE(env_.requests.empty());
  EXPECT_FALSE(tombstones_.empty());
  table_[0].state = RegionState::kReady;
  table_[0].sequence = 9;
  tombstones_.write();
  EXPECT_TRUE(env_.requests.empty());
  EXPECT_TRUE(tombstones_.empty());
}

TEST_F(TombstonesTest, DeletedRecordsLeaveTheCatalogOfAReturnedFile) {
  file_.health().set(Health::kWrites, "writes fail");
  const Record record = stored(1, 0, 8), other = stored(2, 0, 11);
  tombstones_.bury(0, record);
  tombstones_.take_out();
  EXPECT_FALSE(finds(record));
  EXPECT_TRUE(finds(other));
  EXPECT_EQ(table_[0].records, std::vector<Record>{other});
}

}  // namespace
}  // namespace larder::disk
