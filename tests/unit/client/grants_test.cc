// Unwritten grants: abandoned, too old, asked about; and grants whose session is lost during the
// write.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "tests/unit/client/engine.h"
#include "tests/unit/client/gated_clock.h"
#include "tests/unit/client/stores_fixture.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using protocol::MessageType;
using protocol::SlotRef;
using testing_support::EngineClient;
using testing_support::FakeSession;
using testing_support::GatedClock;
using testing_support::GatedStores;
using testing_support::hash_of;
using testing_support::kPlainLayout;
using testing_support::StoresTest;

// Until the thread of that number sleeps, for 5 s at most.
bool await_asleep(const std::atomic<pid_t>& thread) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (std::chrono::steady_clock::now() < end) {
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    const std::string text(std::istreambuf_iterator<char>(stat), {});
    if (text.find(") S ") != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST_F(StoresTest, BegunAndActiveStoresAreReportedAsWriting) {
  Stores stores(pool_, gated_, spec_, pages_);
  const std::vector<SlotRef> refs = granted(stores, 2);
  stores.asked(session_.attachment, refs);
  EXPECT_EQ(session_.receive_slots(MessageType::kStillWriting).size(), 2U)
      << "finish() may still come";

  std::thread finisher([&] { EXPECT_EQ(stores.finish(0).stored, 2U); });
  ASSERT_TRUE(gated_.gate.await_entered(1));
  stores.asked(session_.attachment, refs);
  EXPECT_EQ(session_.receive_slots(MessageType::kStillWriting).size(), 2U);
  gated_.gate.open();
  finisher.join();
  EXPECT_EQ(
      (session_.receive<protocol::SlotList, protocol::CommitRecord>(MessageType::kCommit).size()),
      2U);
  stores.asked(session_.attachment, refs);
  EXPECT_EQ(session_.receive_slots(MessageType::kDisown).size(), 2U)
      << "no thread writes them any more";
  EXPECT_TRUE(session_.silent());
}

TEST_F(StoresTest, HeartbeatContinuesWhileGrantedPagesAreFaultedIn) {
  Stores stores(pool_, gated_, spec_, pages_);
  const std::uint64_t before = session_.heartbeat();
  granted(stores, 3);
  EXPECT_GE(session_.heartbeat(), before + 3) << "or the session is silent, and loses its grants";
  stores.abandon();
}

TEST_F(StoresTest, FinishWaitingForOtherAnswersKeepsItsGrants) {
  Stores stores(pool_, gated_, spec_, pages_, std::chrono::milliseconds(0));
  const std::vector<SlotRef> refs = granted(stores, 1);
  const std::uint32_t late = begun(stores, 2);
  std::atomic<pid_t> finisher_id{0};
  std::thread finisher([&] {
    finisher_id = ::gettid();
    EXPECT_EQ(stores.finish(10'000).stored, 3U);
  });
  // Asked while finish() waits: sooner the grant would be given up for its age.
  ASSERT_TRUE(await_asleep(finisher_id));
  stores.asked(session_.attachment, refs);
  EXPECT_EQ(session_.receive_slots(MessageType::kStillWriting).size(), 1U);
  stores.abandon();
  EXPECT_TRUE(session_.silent());
  gated_.gate.open();
  grant(stores, late, 2);
  finisher.join();
}

// covers F-021
TEST_F(StoresTest, StoreNotFinishedInTimeIsReturned) {
  Stores stores(pool_, gated_, spec_, pages_, std::chrono::milliseconds(0));
  const std::vector<SlotRef> refs = granted(stores, 2);
  stores.asked(session_.attachment, refs);
  EXPECT_EQ(session_.receive_slots(MessageType::kDisown).size(), 2U) << "the store";
  EXPECT_EQ(session_.receive_slots(MessageType::kDisown).size(), 2U) << "the answer";
  EXPECT_EQ(stores.running(), 0U);
  const StoreResult result = stores.finish(0);
  EXPECT_EQ(result.stored, 0U);
  EXPECT_EQ(result.refused, 2U);
}

TEST_F(StoresTest, AbandonedStoreIsReturnedWithoutReadingPages) {
  Stores stores(pool_, gated_, spec_, pages_);
  granted(stores, 2);
  const std::uint32_t late = begun(stores, 1);
  stores.abandon();
  EXPECT_EQ(session_.receive_slots(MessageType::kDisown).size(), 2U);
  grant(stores, late, 1);
  EXPECT_EQ(session_.receive_slots(MessageType::kDisown).size(), 1U) << "granted after the abandon";
  EXPECT_EQ(stores.finish(0).refused, 3U);
  EXPECT_EQ(stores.running(), 0U);
}

TEST_F(StoresTest, NextSessionLearnsThatWriterOfLostSessionStopped) {
  Stores stores(pool_, gated_, spec_, pages_);
  const std::vector<SlotRef> refs = granted(stores, 2);
  std::thread finisher([&] { EXPECT_EQ(stores.finish(0).refused, 2U); });
  ASSERT_TRUE(gated_.gate.await_entered(1));
  session_.attachment->outbox().close();
  stores.lost(session_.attachment);
  const std::vector<SlotRef> listed = stores.still_writing();
  ASSERT_EQ(listed.size(), 2U);
  FakeSession next;
  stores.attached(next.attachment);
  EXPECT_TRUE(next.silent());
  gated_.gate.open();
  finisher.join();
  const std::vector<SlotRef> stopped = next.receive_slots(MessageType::kDisown);
  ASSERT_EQ(stopped.size(), 2U);
  EXPECT_EQ(stopped[0].generation, refs[0].generation);
  EXPECT_TRUE(stores.still_writing().empty());
}

TEST_F(StoresTest, WriterStoppedBetweenSessionsIsReportedToTheNext) {
  Stores stores(pool_, gated_, spec_, pages_);
  granted(stores, 2);
  std::thread finisher([&] { stores.finish(0); });
  ASSERT_TRUE(gated_.gate.await_entered(1));
  session_.attachment->outbox().close();
  stores.lost(session_.attachment);
  ASSERT_EQ(stores.still_writing().size(), 2U);  // for ATTACHED
  gated_.gate.open();
  finisher.join();
  FakeSession next;
  stores.attached(next.attachment);
  EXPECT_EQ(next.receive_slots(MessageType::kDisown).size(), 2U);
}

class ClientGrantsTest : public loop::testing_support::SidecarTest {
 protected:
  ClientGrantsTest() { config_.memory.size_bytes = 16 << 20; }
  void TearDown() override { stop(); }  // before the clock goes

  // Fills the queue to a larderd that sleeps until the session is lost.
  void lose_session(EngineClient& engine) {
    const std::lock_guard asleep(gated_clock_.gate);
    ASSERT_TRUE(wait([&] {
      for (std::uint64_t n = 1000; n < 1100; ++n)
        engine.status = engine.client->store_begin(engine.transfer(n, 1));
      return !engine.client->state().attached;
    }));
  }

  GatedClock gated_clock_;
};

// covers F-021
TEST_F(ClientGrantsTest, AbandonedStoreLeavesNoGrantAtLarderd) {
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  ASSERT_TRUE(engine.client->store_begin(engine.transfer(0, 3)).ok());
  ASSERT_TRUE(wait([&] { return stats().grants == 3; }));
  engine.client->store_abandon();
  EXPECT_TRUE(wait([&] { return stats().grants == 0 && stats().disowned == 3; }));
  EXPECT_EQ(engine.store(0, 3).stored, 3U);
}

// covers F-020
TEST_F(ClientGrantsTest, LostSessionKeepsOnlySlotsStillWritten) {
  start(gated_clock_);
  GatedStores gated;
  EngineClient engine(config_.socket, kPlainLayout, gated);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  ASSERT_TRUE(engine.client->store_begin(engine.transfer(0, 1)).ok());
  std::thread finisher([&] { engine.client->store_finish(5000); });
  ASSERT_TRUE(gated.gate.await_entered(1));
  lose_session(engine);
  EXPECT_TRUE(wait([&] {
    return engine.client->state().attachments == 2 && stats().slots_quarantined == 1;
  })) << stats().slots_quarantined
      << " quarantined";
  EXPECT_GT(stats().grants_reclaimed, 0U);
  gated.gate.open();
  finisher.join();
  EXPECT_TRUE(wait([&] { return stats().slots_quarantined == 0; }));
  engine.client->store_abandon();
  EXPECT_TRUE(wait([&] { return stats().grants == 0; }));
}

// The index still shows dropped chunks until larderd has done the drop.
// covers F-076
TEST_F(ClientGrantsTest, StoreAfterADropIsNotSkippedEvenWithSlowSidecar) {
  start(gated_clock_);
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  ASSERT_TRUE(wait([&] { return engine.store(0, 2).stored == 2; }));
  ASSERT_TRUE(engine.await_present(0, 2));
  {
    const std::lock_guard asleep(gated_clock_.gate);
    ASSERT_TRUE(engine.client->drop_namespace().ok());
    ASSERT_TRUE(engine.client->store_begin(engine.transfer(0, 2)).ok());
  }
  const StoreResult result = engine.client->store_finish(5000);
  EXPECT_EQ(result.present, 0U);
  EXPECT_EQ(result.stored, 2U);
  EXPECT_TRUE(engine.await_present(0, 2));
}

}  // namespace
}  // namespace larder::client
