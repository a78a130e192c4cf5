// A process dies or stops during a copy by larderd.
#include <signal.h>

#include <thread>

#include "tests/cuda/transfer/transfer_fixture.h"

namespace larder::test {
namespace {

std::int64_t copies_begun(const LarderdProcess& larderd) {
  return larderd.status_number({"memory", "slots", "granted"});
}

bool nothing_is_held(const LarderdProcess& larderd) {
  return larderd.status_number({"sessions", "attached"}) == 0 && copies_begun(larderd) == 0 &&
         larderd.status_number({"memory", "slots", "quarantined"}) == 0 &&
         copied(larderd, "open") == 0;
}

// covers F-031
TEST_F(TransferTest, EngineKilledDuringCopyLeaksNothing) {
  larderd_ = larderd_that_copies({{"FAKE_CUDA_DELAY_MS", "50"}});
  ChildProcess victim(std::vector<std::string>{TRANSFER_ENGINE_PATH, larderd_->socket()});
  ASSERT_TRUE(eventually([&] { return copies_begun(*larderd_) > 0; }, 20'000));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // during the copy
  EXPECT_EQ(victim.kill(), 128 + SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return nothing_is_held(*larderd_); }, 20'000))
      << "its grants come back once larderd has stopped writing for it";
  EXPECT_LT(std::chrono::steady_clock::now() - killed,
            std::chrono::milliseconds(protocol::kDeviceSettlingMs))
      << "no GPU of the engine's own wrote there, so larderd waits for no GPU";
  engine_ = engine_at(*larderd_);
  ASSERT_TRUE(await_open(*engine_)) << log_of(*engine_);
  EXPECT_TRUE(served(*engine_, 0));
}

// After both deaths it is unknown when the GPU stops writing for the dead process.
// covers F-031
TEST_F(TransferTest, SlotWrittenByGpuOfDeadLarderdStaysQuarantinedForAWhile) {
  larderd_ = larderd_that_copies({{"FAKE_CUDA_DELAY_MS", "50"}});
  ChildProcess victim(std::vector<std::string>{TRANSFER_ENGINE_PATH, larderd_->socket()});
  ASSERT_TRUE(eventually([&] { return copies_begun(*larderd_) > 0; }, 20'000));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // during the copy
  const auto killed = std::chrono::steady_clock::now();
  larderd_->kill_and_restart(SIGKILL, [&] { EXPECT_EQ(victim.kill(), 128 + SIGKILL); });
  const std::int64_t set_aside = larderd_->status_number({"memory", "slots", "quarantined"});
  // A machine that took longer than the time limit proves no point here.
  if (std::chrono::steady_clock::now() - killed <
      std::chrono::milliseconds(protocol::kDeviceSettlingMs - 500)) {
    EXPECT_GT(set_aside, 0);
  }
  EXPECT_TRUE(eventually([&] { return nothing_is_held(*larderd_); }, 20'000));
}

// covers F-032
TEST_F(TransferTest, LarderdKilledDuringCopyCostsTheCopyOnly) {
  ASSERT_TRUE(begin(kAllocated, {{"FAKE_CUDA_DELAY_MS", "50"}}));
  std::thread killer([&] {
    eventually([&] { return copies_begun(*larderd_) > 0; }, 10'000);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    larderd_->process().kill();
  });
  const client::StoreResult stored = engine_->store(0, 2, 10'000);
  killer.join();
  EXPECT_EQ(stored.stored, 0U);
  {
    const Environment found(Variables{{"LD_LIBRARY_PATH", FAKE_CUDA_FOLDER}});
    larderd_->kill_and_restart();
  }
  ASSERT_TRUE(eventually([&] { return engine_->client->state().attached; }, 20'000));
  ASSERT_TRUE(await_open(*engine_)) << log_of(*engine_);
  EXPECT_TRUE(served(*engine_, 10));
}

TEST_F(TransferTest, LarderdEndsCleanlyWithOpenEngineMemory) {
  ASSERT_TRUE(begin(kByHand));
  ASSERT_TRUE(served(*engine_, 0));
  larderd_->process().signal(SIGTERM);
  EXPECT_EQ(larderd_->process().wait(20'000), 0);
}

TEST_F(TransferTest, LarderdEndsCleanlyDuringCopy) {
  ASSERT_TRUE(begin(kAllocated, {{"FAKE_CUDA_DELAY_MS", "50"}}));
  std::thread stopper([&] {
    eventually([&] { return copies_begun(*larderd_) > 0; }, 10'000);
    larderd_->process().signal(SIGTERM);
    EXPECT_EQ(larderd_->process().wait(20'000), 0);
  });
  engine_->store(0, 8, 10'000);  // more than larderd has threads
  stopper.join();
}

// Bytes before time: a load is not reported while larderd may still write.
// covers F-032
TEST_F(TransferTest, LoadWaitsForLarderdStoppedDuringCopy) {
  ASSERT_TRUE(begin(kAllocated, {{"FAKE_CUDA_DELAY_MS", "50"}}));
  ASSERT_EQ(engine_->store(0, 1, 10'000).stored, 1U);
  ASSERT_TRUE(engine_->await_present(0, 1));
  engine_->engine.wipe();
  const Result<std::uint64_t> ticket = engine_->client->load(engine_->transfer(0, 1), 5000);
  ASSERT_TRUE(ticket.ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  larderd_->process().signal(SIGSTOP);
  EXPECT_TRUE(engine_->client->poll(1, std::chrono::seconds(4)).empty())
      << "longer than a copy may wait to be begun";
  larderd_->process().signal(SIGCONT);
  EXPECT_EQ(engine_->await(*ticket).status, Code::kOk);
  EXPECT_TRUE(engine_->holds(0, 1));
}

// covers F-032
TEST_F(TransferTest, LarderdStoppedBeforeCopyIsNotAwaited) {
  ASSERT_TRUE(begin());
  ASSERT_TRUE(served(*engine_, 0, 1));
  engine_->engine.wipe();
  larderd_->process().signal(SIGSTOP);
  EXPECT_EQ(engine_->load(0, 1).status, Code::kOk) << "by the engine itself";
  EXPECT_TRUE(engine_->holds(0, 1));
  larderd_->process().signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return served(*engine_, 20, 1); }, 20'000));
}

}  // namespace
}  // namespace larder::test
