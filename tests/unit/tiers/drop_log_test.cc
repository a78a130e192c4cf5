#include "sidecar/tiers/disk/drop_log.h"

#include "tests/unit/tiers/engine_parts.h"

namespace larder::disk {
namespace {

class DropLogTest : public testing_support::EngineParts {
 protected:
  void drop(std::uint64_t space = 1) {
    Command command;
    command.operation = tiers::Operation::kDrop;
    command.key = testing_support::key_of(0, space);
    command.deadline_ns = UINT64_MAX;
    catalog_.hide(command.key.namespace_id);
    drops_.drop(operations_.add(command));
  }
  std::vector<Outcome> outcomes() {
    std::vector<Outcome> all;
    operations_.take_outcomes(all);
    return all;
  }
  // The file goes away.
  void lose() {
    file_.health().set(Health::kLost, "away");
    file_.volume().reset();
  }

  DropLog drops_{file_, operations_, probe_};
};

TEST_F(DropLogTest, DropIsAnsweredAfterBothCopiesAreSynced) {
  const Record record = stored(1, 0, 8);
  drop();
  EXPECT_FALSE(finds(record));
  drops_.write_if_stale();
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{kSuperblockBytes}}) {
    ASSERT_EQ(env_.requests.size(), 1U) << "one copy after the other";
    Superblock written;
    EXPECT_EQ(decode_superblock(env_.requests[0].parts[0], written), SuperblockFault::kNone);
    EXPECT_EQ(written.drops.size(), 1U);
    EXPECT_EQ(end_one().offset, offset);
    EXPECT_FALSE(operations_.has_outcomes());
    EXPECT_EQ(end_one().kind, IoRequest::Kind::kSync);
  }
  const std::vector<Outcome> answered = outcomes();
  ASSERT_EQ(answered.size(), 1U);
  EXPECT_TRUE(answered[0].message.status.ok());
  EXPECT_EQ(answered[0].message.dropped, 1U);
  drops_.write_if_stale();
  EXPECT_TRUE(env_.requests.empty());
}

TEST_F(DropLogTest, DamagedCopyIsWrittenFirstAfterAFailure) {
  drop();
  drops_.write_if_stale();
  EXPECT_EQ(end_one().offset, 0U);
  end_one();
  end_one(EIO);
  EXPECT_FALSE(outcomes().at(0).message.status.ok());
  drops_.write_if_stale();
  EXPECT_TRUE(env_.requests.empty()) << "writes fail";
  file_.health().clear(Health::kWrites);
  drops_.write_if_stale();
  EXPECT_EQ(end_one().offset, kSuperblockBytes) << "the first copy is whole";
}

TEST_F(DropLogTest, DropWithoutFileAppliesWhenTheFileReturns) {
  lose();
  drop();
  EXPECT_EQ(outcomes().at(0).message.status.code(), Code::kUnavailable);
  open();
  drops_.before_recovery();
  const Record record = stored(1, 0, 8), other{testing_support::key_of(1, 2), record.facts, 11, 0};
  catalog_.insert(other, 0);
  EXPECT_FALSE(finds(record)) << "not even for a moment";
  file_.health().clear(Health::kLost);
  drops_.recovered(true);
  EXPECT_FALSE(finds(record));
  EXPECT_TRUE(finds(other));
  EXPECT_EQ(file_.volume()->superblock.drops.size(), 1U);
  drops_.write_if_stale();
  EXPECT_EQ(env_.requests.size(), 1U);
}

TEST_F(DropLogTest, TooManyDropsWithoutAFileDropEveryNamespace) {
  lose();
  for (std::uint64_t space = 1; space <= kMaxDropMarks + 1; ++space) drop(space);
  open();
  drops_.before_recovery();
  const Record other{testing_support::key_of(1, 99'999), {1, kBlockBytes, kBlockBytes, 1}, 8, 0};
  catalog_.insert(other, 0);
  drops_.recovered(true);
  EXPECT_FALSE(finds(other));
  EXPECT_TRUE(file_.volume()->superblock.drops.empty());
  EXPECT_GT(file_.volume()->superblock.all_dropped.sequence, kRegions);
}

}  // namespace
}  // namespace larder::disk
