// Ended sessions alone: when their grants come back, and who is awaited after a restart.
#include "sidecar/loop/ended_sessions.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "shim/protocol/lock_layout.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::loop {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kEpoch = 7;

class EndedSessionsTest : public testing::Test {
 protected:
  EndedSessionsTest() {
    char name[] = "/dev/shm/larder-test-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~EndedSessionsTest() override { std::filesystem::remove_all(directory_); }

  // The number of a session is its token too.
  static session::SessionFacts facts_of(std::uint32_t number) {
    session::SessionFacts facts;
    facts.number = number;
    facts.token = number;
    facts.epoch = kEpoch;
    return facts;
  }
  std::string path_of(std::uint32_t number) const {
    return directory_ + "/lock-" + std::to_string(number);
  }
  memory::LockFile make_lock(std::uint32_t number) const {
    Result<memory::LockFile> lock = memory::LockFile::create(path_of(number));
    EXPECT_TRUE(lock->write({number, kEpoch}).ok());
    return std::move(*lock);
  }
  // The lock of a living engine, until the descriptor is closed.
  Fd hold_lock(std::uint32_t number) const {
    Fd file(::open(path_of(number).c_str(), O_RDWR | O_CLOEXEC));
    struct flock lock {};
    lock.l_type = F_WRLCK;
    EXPECT_EQ(::fcntl(file.get(), F_OFD_SETLK, &lock), 0);
    return file;
  }
  // A session with grants that the store has ended.
  std::vector<protocol::SlotRef> end_in_store(std::uint32_t number, std::uint64_t grants = 1) {
    box_.add_session(number);
    std::vector<protocol::SlotRef> slots;
    for (std::uint64_t i = 0; i < grants; ++i) {
      const protocol::Grant grant = box_.reserve(number, 100 * number + i);
      slots.push_back({grant.slot, 0, grant.generation});
    }
    EXPECT_TRUE(box_.store().sessions().end(number));
    return slots;
  }
  std::vector<protocol::SlotRef> lose(std::uint32_t number, std::uint64_t grants = 1) {
    std::vector<protocol::SlotRef> slots = end_in_store(number, grants);
    ended_.add(facts_of(number), make_lock(number), Fd());
    return slots;
  }
  // An engine that lost session `earlier`, attaches as `number`, and still writes `slots`.
  void attach_anew(std::uint32_t number, std::uint32_t earlier,
                   const std::vector<protocol::SlotRef>& slots) {
    protocol::SessionRegion& region = box_.add_session(number);
    session::SessionProtocol session(
        facts_of(number), region,
        {.store = box_.store(), .stats = loop_stats_.counters(), .clock = clock_},
        [] { return true; });
    protocol::Hello hello{};
    hello.version_major = 1;
    hello.previous_session = earlier;
    hello.previous_epoch = kEpoch;
    ASSERT_TRUE(
        session.handle(protocol::Encoder(protocol::MessageType::kHello, 1).append(hello).packet())
            .ok());
    protocol::Encoder attached(protocol::MessageType::kAttached, 0);
    attached.append(protocol::Attached{static_cast<std::uint32_t>(slots.size()), 0});
    for (const protocol::SlotRef& slot : slots) attached.append(slot);
    ASSERT_TRUE(session.handle(attached.packet()).ok());
    ended_.take_over(session);
  }
  std::uint64_t quarantined() { return box_.filled().slots_quarantined; }

  std::string directory_;
  store::testing_support::StoreBox box_{16};
  base::ManualClock clock_;
  LoopStats loop_stats_{"pool", kEpoch, memory::ArenaFile{}, clock_.now_ms()};
  EndedSessions ended_{box_.store(), nullptr, loop_stats_, clock_};
};

TEST_F(EndedSessionsTest, ReleasedLockFreesGrantsAndRemovesItsFile) {
  lose(1);
  Fd engine = hold_lock(1);
  ended_.release();
  EXPECT_EQ(quarantined(), 1U);
  EXPECT_EQ(ended_.taken(), 1U);
  EXPECT_FALSE(loop_stats_.due());
  engine.reset();
  ended_.release();
  EXPECT_EQ(quarantined(), 0U);
  EXPECT_EQ(ended_.taken(), 0U);
  EXPECT_TRUE(loop_stats_.due()) << "the snapshot is renewed at once";
  EXPECT_FALSE(std::filesystem::exists(path_of(1)));
}

TEST_F(EndedSessionsTest, GpuGrantsStayQuarantinedForAWhileAfterTheLock) {
  lose(1);
  const std::uint8_t yes = 1;
  Fd engine = hold_lock(1);
  ASSERT_EQ(::pwrite(engine.get(), &yes, 1, protocol::kDeviceWritesOffset), 1);
  clock_.advance_ms(2 * protocol::kDeviceSettlingMs);
  ended_.release();  // the time counts from the end of the process
  engine.reset();
  ended_.release();
  clock_.advance_ms(protocol::kDeviceSettlingMs - 1);
  ended_.release();
  EXPECT_EQ(quarantined(), 1U);
  clock_.advance_ms(1);
  ended_.release();
  EXPECT_EQ(quarantined(), 0U);
}

TEST_F(EndedSessionsTest, ReattachedEngineFreesUnlistedGrants) {
  const std::vector<protocol::SlotRef> slots = lose(1, 3);
  const Fd engine = hold_lock(1);
  attach_anew(2, 1, {slots[1]});
  EXPECT_EQ(quarantined(), 1U);
  EXPECT_EQ(ended_.taken(), 1U) << "the listed grant stays under the lock of the session before";
  ended_.release();
  EXPECT_EQ(quarantined(), 1U);
}

TEST_F(EndedSessionsTest, EndedSessionIsFoundByNewestAndPreviousToken) {
  const std::vector<protocol::SlotRef> slots = lose(1, 2);
  attach_anew(2, 1, slots);
  EXPECT_EQ(quarantined(), 2U);
  attach_anew(3, 1, {slots[0]});  // the engine never learnt of session 2
  EXPECT_EQ(quarantined(), 1U);
  // session 3 gave the session its own name and the name before: not this one
  attach_anew(4, 2, {});
  EXPECT_EQ(quarantined(), 1U);
  attach_anew(5, 3, {});
  EXPECT_EQ(quarantined(), 0U);
  EXPECT_EQ(ended_.taken(), 0U);
}

TEST_F(EndedSessionsTest, OnlyLivingEnginesOfThePreviousInstanceAreAwaited) {
  memory::PreviousInstance earlier;
  for (const std::uint32_t number : {1U, 2U}) {
    end_in_store(number);
    earlier.sessions.emplace(number, make_lock(number));
  }
  end_in_store(3);
  earlier.device_writing.emplace(3, make_lock(3));
  const Fd engine = hold_lock(2);
  EXPECT_THAT(ended_.restore(earlier), ElementsAre(1, 2, 3));
  EXPECT_THAT(ended_.awaited(), ElementsAre(2));
  EXPECT_EQ(ended_.taken(), 0U) << "the previous instance admitted the sessions";
  ended_.release();
  EXPECT_EQ(quarantined(), 1U);
  attach_anew(4, 2, {});
  EXPECT_THAT(ended_.awaited(), IsEmpty());
  ended_.release();
  EXPECT_EQ(box_.store().sessions().grants_of(2), 0U);
}

TEST_F(EndedSessionsTest, PidfdIsForgottenOnlyForPresentSessions) {
  lose(1);
  EXPECT_TRUE(ended_.forget_pidfd(1));
  EXPECT_FALSE(ended_.forget_pidfd(2));
}

TEST_F(EndedSessionsTest, StopKeepsTheLockFilesOfPossibleWriters) {
  base::ManualClock clock;
  {
    EndedSessions ended(box_.store(), nullptr, loop_stats_, clock);
    for (const std::uint32_t number : {1U, 2U, 3U})
      ended.add(facts_of(number), make_lock(number), Fd());
    const std::uint8_t yes = 1;
    const Fd engine = hold_lock(1), gpu(::open(path_of(2).c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::pwrite(gpu.get(), &yes, 1, protocol::kDeviceWritesOffset), 1);
    ended.keep_locks();
  }
  EXPECT_TRUE(std::filesystem::exists(path_of(1)));
  EXPECT_TRUE(std::filesystem::exists(path_of(2)));
  EXPECT_FALSE(std::filesystem::exists(path_of(3)));
}

}  // namespace
}  // namespace larder::loop
