// A device that fails, stalls, is full or goes away: degraded with a reason, back by itself, and a
// failed write is never found.
#include <gmock/gmock.h>

#include <new>

#include "sidecar/base/log_throttle.h"
#include "sidecar/tiers/disk/device.h"
#include "tests/file_size_limit.h"
#include "tests/unit/tiers/disk_world.h"

namespace larder::disk::testing_support {
namespace {

using testing::HasSubstr;
using tiers::Message;
using tiers::Ticket;

class DiskFaultsTest : public DiskWorld {
 protected:
  void SetUp() override { ASSERT_TRUE(open().ok()); }
};

// covers F-133
TEST_F(DiskFaultsTest, FullDeviceDegradesOnlyPutsAndRecovers) {
  ASSERT_TRUE(loop_->put(1).ok());
  env_.faults.error = ENOSPC;
  env_.faults.all_writes_fail = true;
  EXPECT_FALSE(loop_->put(2).ok());
  EXPECT_FALSE(tier_->probe(key_of(2)).has_value());
  ASSERT_TRUE(await([&] { return tier_->state().degraded(); }));
  EXPECT_EQ(tier_->state().reason, "writes fail: No space left on device");
  EXPECT_TRUE(tier_->state().takes_gets);
  EXPECT_EQ(loop_->put(3).code(), Code::kUnavailable);
  EXPECT_TRUE(loop_->get(1).ok()) << "present chunks can still be read";
  env_.faults.all_writes_fail = false;
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  EXPECT_EQ(tier_->state().reason, "");
  EXPECT_TRUE(loop_->put(2).ok());
  EXPECT_TRUE(loop_->get(2).ok());
  EXPECT_EQ(tier_->counters().times_degraded, 1U);
  ASSERT_TRUE(open().ok());
  EXPECT_TRUE(loop_->get(1).ok() && loop_->get(2).ok());
  EXPECT_EQ(loop_->get(3).code(), Code::kNotFound);
}

// Set while larderd runs, or over a file made without the limit: a start over a new file names the
// limit at once.
// covers F-108
TEST_F(DiskFaultsTest, FileSizeLimitIsReported) {
  ASSERT_TRUE(loop_->put(1).ok());
  {
    const test::FileSizeLimit limit(8192);
    EXPECT_FALSE(loop_->put(2).ok());
    ASSERT_TRUE(await([&] { return tier_->state().degraded(); }));
    EXPECT_THAT(tier_->state().reason,
                testing::AllOf(HasSubstr("writes fail: "), HasSubstr("ulimit -f unlimited")));
  }
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  EXPECT_TRUE(loop_->put(2).ok());
}

// A file system that comes and goes: the line of each life has other numbers, and is of one kind.
TEST_F(DiskFaultsTest, LogLinesDifferingInNumbersAreMerged) {
  base::tell_all_left_out();
  testing::internal::CaptureStderr();
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(open().ok());
    ASSERT_TRUE(loop_->put(i).ok());
  }
  const std::string log = testing::internal::GetCapturedStderr();
  std::size_t lines = 0;
  for (std::size_t at = log.find("chunks found again"); at != std::string::npos;
       at = log.find("chunks found again", at + 1))
    ++lines;
  EXPECT_EQ(lines, 1U) << log;
  testing::internal::CaptureStderr();
  base::tell_all_left_out();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("left out: 5 more lines of disk tier, found again"));
}

// covers F-134
TEST_F(DiskFaultsTest, BadBlockCostsItsChunkAndThreeInARowDegradeReads) {
  for (std::uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(loop_->put(i).ok());
  env_.faults.all_reads_fail = true;
  EXPECT_EQ(loop_->get(0).code(), Code::kInternal);
  EXPECT_FALSE(tier_->state().degraded());
  EXPECT_FALSE(tier_->probe(key_of(0)).has_value());
  EXPECT_FALSE(loop_->get(1).ok() || loop_->get(2).ok());
  ASSERT_TRUE(await([&] { return tier_->state().degraded(); }));
  EXPECT_THAT(tier_->state().reason, HasSubstr("reads fail: Input/output error"));
  EXPECT_EQ(loop_->get(3).code(), Code::kUnavailable);
  env_.faults.all_reads_fail = false;
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  EXPECT_TRUE(loop_->get(3).ok());
}

// covers F-135
TEST_F(DiskFaultsTest, StalledDeviceCostsOneDeadlineAndReturnsTheSlotLater) {
  ASSERT_TRUE(loop_->put(1).ok());
  env_.faults.stalled = true;
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes)), source(slot.span().size());
  const tiers::ChunkFacts facts = fill(source.span(), 2, 1);
  const Ticket get = loop_->next(), put = loop_->next();
  ASSERT_TRUE(tier_->get(get, key_of(1), slot.span(), loop_->in_ms(50)).ok());
  ASSERT_TRUE(tier_->put(put, key_of(2), facts, source.span(), loop_->in_ms(50)).ok());
  for (const Ticket ticket : {get, put}) {
    const std::optional<Message> done = loop_->done(ticket);
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->status.code(), Code::kDeadlineExceeded);
    EXPECT_TRUE(done->slot_busy);
  }
  EXPECT_EQ(tier_->counters().in_flight_bytes, 2 * slot.span().size()) << "the slots are not free";
  ASSERT_TRUE(await([&] { return tier_->state().degraded(); }));
  EXPECT_THAT(tier_->state().reason, HasSubstr("has not answered for 1000 ms"));
  EXPECT_EQ(loop_->get(1).code(), Code::kUnavailable)
      << "no caller waits for the device a second time";
  env_.faults.stalled = false;
  EXPECT_TRUE(loop_->done(get, Message::Kind::kReleased).has_value());
  EXPECT_TRUE(loop_->done(put, Message::Kind::kReleased).has_value());
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  EXPECT_EQ(tier_->counters().in_flight_bytes, 0U);
  EXPECT_FALSE(tier_->probe(key_of(2)).has_value()) << "it was said to have failed";
  ASSERT_TRUE(loop_->put(3).ok() && loop_->flush().ok() && quiet());
  // its open region has no footer
  const Result<std::unique_ptr<tiers::Tier>> next = open_as_if_killed();
  ASSERT_TRUE(next.ok()) << next.status().to_string();
  EXPECT_TRUE((*next)->probe(key_of(1)).has_value() && (*next)->probe(key_of(3)).has_value());
  EXPECT_FALSE((*next)->probe(key_of(2)).has_value()) << "its bytes have landed, and are buried";
  EXPECT_TRUE(loop_->get(1).ok());
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(loop_->get(2).code(), Code::kNotFound) << "also after a restart";
  EXPECT_TRUE(loop_->get(1).ok());
}

// Its bytes have landed all the same, and the writes over these bytes fail, too.
TEST_F(DiskFaultsTest, FailedPutGetsATombstoneWhenWritesWork) {
  options_.stall_ms = 20'000;
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(loop_->put(1).ok());
  ASSERT_TRUE(quiet());
  env_.faults.stalled = true;
  env_.faults.land_writes = true;
  env_.faults.writes_fail_from = env_.faults.calls.load();
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  const tiers::ChunkFacts facts = fill(slot.span(), 2, 1);
  const Ticket put = loop_->next();
  ASSERT_TRUE(tier_->put(put, key_of(2), facts, slot.span(), loop_->in_ms(20'000)).ok());
  ASSERT_TRUE(await([&] { return env_.faults.calls > env_.faults.writes_fail_from; }));
  ASSERT_TRUE(quiet());
  env_.faults.land_writes = false;
  env_.faults.stalled = false;
  EXPECT_FALSE(loop_->ended(put).ok());
  ASSERT_TRUE(await([&] { return tier_->state().degraded(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  env_.faults.writes_fail_from = INT64_MAX;
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  ASSERT_TRUE(quiet());
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(loop_->get(2).code(), Code::kNotFound);
  EXPECT_TRUE(loop_->get(1).ok());
}

// The write fails with the directory's going away, and lands on the file that comes back.
TEST_F(DiskFaultsTest, FailedPutGetsATombstoneAfterVolumeLoss) {
  options_.stall_ms = 20'000;
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(loop_->put(1).ok());
  ASSERT_TRUE(quiet());
  env_.faults.stalled = true;
  const std::int64_t calls = env_.faults.calls;
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  const tiers::ChunkFacts facts = fill(slot.span(), 2, 1);
  const Ticket put = loop_->next();
  ASSERT_TRUE(tier_->put(put, key_of(2), facts, slot.span(), loop_->in_ms(20'000)).ok());
  ASSERT_TRUE(await([&] { return env_.faults.calls > calls; }) && quiet());
  const std::string away = options_.path + ".away";
  std::filesystem::rename(options_.path, away);
  ASSERT_TRUE(await([&] { return tier_->state().reason.find("went away") != std::string::npos; }));
  env_.faults.stalled = false;
  EXPECT_FALSE(loop_->ended(put).ok());
  std::filesystem::rename(away, options_.path);
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  EXPECT_FALSE(tier_->probe(key_of(2)).has_value());
  EXPECT_TRUE(loop_->get(1).ok());
  ASSERT_TRUE(quiet());
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(loop_->get(2).code(), Code::kNotFound);
  EXPECT_TRUE(loop_->get(1).ok());
}

// covers F-136
TEST_F(DiskFaultsTest, VanishedDirectoryIsReportedAndUsedAgain) {
  ASSERT_TRUE(loop_->put(1).ok());
  const std::string away = options_.path + "/away";
  std::filesystem::rename(options_.path + "/larder", away);
  ASSERT_TRUE(await([&] { return tier_->counters().times_degraded == 1; }));
  EXPECT_FALSE(loop_->get(1).ok());
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }))
      << "a new one is made where the old one was";
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound);
  ASSERT_TRUE(loop_->put(2).ok());
  EXPECT_TRUE(loop_->get(2).ok());
}

// covers F-136
TEST_F(DiskFaultsTest, ReturningVolumeKeepsItsChunks) {
  ASSERT_TRUE(loop_->put(1).ok());
  const std::string away = options_.path + ".away";
  std::filesystem::rename(options_.path, away);
  ASSERT_TRUE(await([&] { return tier_->state().degraded(); }));
  EXPECT_THAT(tier_->state().reason, HasSubstr("went away"));
  EXPECT_FALSE(tier_->probe(key_of(1)).has_value());
  EXPECT_EQ(loop_->put(2).code(), Code::kUnavailable);
  std::filesystem::rename(away, options_.path);
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  EXPECT_TRUE(loop_->get(1).ok());
  EXPECT_TRUE(loop_->put(2).ok());
}

TEST_F(DiskFaultsTest, DropOnAFailingDeviceFailsAndIsWrittenLater) {
  ASSERT_TRUE(loop_->put(1, 1, 1).ok() && loop_->put(2, 1, 2).ok());
  env_.faults.all_writes_fail = true;
  EXPECT_FALSE(loop_->drop(1).ok()) << "not on the disk yet";
  EXPECT_EQ(loop_->get(1, 1).code(), Code::kNotFound);
  env_.faults.all_writes_fail = false;
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  ASSERT_TRUE(loop_->drop(3).ok());  // whose superblock has the earlier drop too
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(loop_->get(1, 1).code(), Code::kNotFound);
  EXPECT_TRUE(loop_->get(2, 2).ok());
}

TEST_F(DiskFaultsTest, DropWithoutVolumeAppliesToItsReturn) {
  for (const bool label_fails : {false, true}) {
    ASSERT_TRUE(loop_->put(1, 1, 1).ok() && loop_->put(2, 1, 2).ok());
    env_.faults.all_writes_fail = label_fails;
    if (label_fails) (void)loop_->drop(1);
    const std::string away = options_.path + ".away";
    std::filesystem::rename(options_.path, away);
    ASSERT_TRUE(
        await([&] { return tier_->state().reason.find("went away") != std::string::npos; }));
    EXPECT_FALSE(label_fails ? false : loop_->drop(1).ok()) << "it may be there after a restart";
    env_.faults.all_writes_fail = false;
    std::filesystem::rename(away, options_.path);
    ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
    EXPECT_FALSE(tier_->probe(key_of(1, 1)).has_value());
    EXPECT_EQ(loop_->get(1, 1).code(), Code::kNotFound);
    EXPECT_TRUE(loop_->get(2, 2).ok());
    ASSERT_TRUE(loop_->drop(3).ok());  // its superblock tells of the earlier drop too
    ASSERT_TRUE(open().ok());
    EXPECT_EQ(loop_->get(1, 1).code(), Code::kNotFound);
    EXPECT_TRUE(loop_->get(2, 2).ok());
  }
}

TEST_F(DiskFaultsTest, FlushWithoutVolumeFails) {
  const std::string away = options_.path + ".away";
  std::filesystem::rename(options_.path, away);
  ASSERT_TRUE(await([&] { return tier_->state().degraded(); }));
  const Ticket ticket = loop_->next();
  ASSERT_TRUE(tier_->flush(ticket, loop_->in_ms(20'000)).ok());
  EXPECT_EQ(loop_->ended(ticket).code(), Code::kUnavailable) << "at once";
  std::filesystem::rename(away, options_.path);
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  EXPECT_TRUE(loop_->flush().ok());
}

// larderd then says so and ends (main.cc); a null pointer would be written to.
#ifndef LARDER_SANITIZED  // a sanitizer ends the program instead
TEST(AlignedBytesTest, ThrowsWithoutMemory) {
  EXPECT_THROW(AlignedBytes(std::size_t{1} << 60), std::bad_alloc);
}
#endif

// Every call of a scenario fails once, before its effect, torn, or after its effect: no crash, no
// found chunk that was reported as failed, no wrong byte, before and after a restart.
class EveryCallTest : public DiskWorld, public testing::WithParamInterface<const char*> {};

// covers F-133
TEST_P(EveryCallTest, MayFailInAScenario) {
  constexpr std::uint64_t kChunks = 14;
  std::int64_t scenarios = 0;
  for (std::int64_t call = 0;; ++call, ++scenarios) {
    ASSERT_LT(call, 2000);
    std::filesystem::remove_all(options_.path + "/larder");
    env_.faults.fail_call = -1;
    ASSERT_TRUE(open().ok());
    env_.faults.tear_writes = GetParam() == std::string("torn");
    env_.faults.land_writes = GetParam() == std::string("landed");
    env_.faults.calls = 0;
    env_.faults.fail_call = call;
    std::map<std::uint64_t, bool> stored;
    for (std::uint64_t i = 0; i < kChunks; ++i) {
      if (i == 9) (void)loop_->drop(7);
      stored[i] = loop_->put(i, 1, 1).ok();
      if (i % 4 == 3) {
        const Status status = loop_->get(i, 1);
        ASSERT_NE(status.text(), "WRONG BYTES");
      }
    }
    ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
    const bool reached = env_.faults.calls > call;
    env_.faults.fail_call = -1;
    for (int life = 0; life < 2; ++life) {
      for (std::uint64_t i = 0; i < kChunks; ++i) {
        const Status status = loop_->get(i, 1);
        ASSERT_NE(status.text(), "WRONG BYTES") << "call " << call;
        ASSERT_FALSE(status.ok() && !stored[i])
            << "chunk " << i << " was said to have failed, call " << call << " life " << life;
      }
      ASSERT_TRUE(life != 0 || open().ok());
    }
    close();
    if (!reached) break;
  }
  EXPECT_GT(scenarios, 20);
}

INSTANTIATE_TEST_SUITE_P(Failed, EveryCallTest, testing::Values("undone", "torn", "landed"),
                         [](const auto& how) { return std::string(how.param); });

// The caller of close() gave the device its time: a stop of larderd must not last ten seconds
// longer.
// covers F-157
TEST(DiskCloseTest, ClosedHungDeviceIsAwaitedOnce) {
  // The memory of the thread stays: the thread may be left behind.
  static FaultyEnv& env = *new FaultyEnv;
  static const base::MonotonicClock clock;
  static Slot& slot = *new Slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  char name[] = "/tmp/larder-disk-XXXXXX";
  DiskOptions options;
  options.path = ::mkdtemp(name);
  options.size_bytes = 34 << 20;
  options.region_bytes = kRegionBytes;
  Result<std::unique_ptr<tiers::Tier>> tier = open_disk_tier(env, clock, options);
  ASSERT_TRUE(tier.ok());
  env.faults.stalled = true;
  const tiers::ChunkFacts facts = fill(slot.span(), 1, 1);
  ASSERT_TRUE((*tier)->put(1, key_of(1), facts, slot.span(), clock.now_ns() + 20'000'000'000).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::uint64_t start_ms = clock.now_ms();
  EXPECT_FALSE((*tier)->close(100));
  tier->reset();
  EXPECT_LT(clock.now_ms() - start_ms, 6000U);
  env.faults.stalled = false;
  std::filesystem::remove_all(options.path);
}

}  // namespace
}  // namespace larder::disk::testing_support
