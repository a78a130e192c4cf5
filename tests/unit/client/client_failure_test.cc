// Failures around a client: no sidecar, a sidecar that goes and comes, bytes that rot, answers that
// are late.
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>

#include "tests/unit/client/copies.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/client/gated_clock.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::EngineClient;
using testing_support::GatedClock;
using testing_support::hash_of;
using testing_support::kPlainLayout;

// Lets the test stop the copies of chosen chunks, or fail the copies.
class GatedEngine final : public testing_support::HostCopies {
 public:
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const copy::PieceList& to) const override {
    if (gate.enter() == fail_turn) return {Code::kDataLoss, "told to"};
    gate.pass();
    return HostCopies::load(slot, root, to);
  }
  mutable testing_support::Gate gate;
  int fail_turn = -1;
};

class ClientFailureTest : public loop::testing_support::SidecarTest {
 protected:
  ClientFailureTest() { config_.memory.size_bytes = 16 << 20; }
  void TearDown() override {  // before the objects in use go
    engine_.reset();
    stop();
  }

  // The sidecar, and an engine that has stored the chunks 0 to `chunks` - 1.
  void start_with_stored(std::uint32_t chunks,
                         const copy::CopyEngine& copies = copy::host_copy_engine()) {
    start();
    engine_.emplace(config_.socket, kPlainLayout, copies);
    ASSERT_TRUE(engine_->client->wait_attached(5000).ok());
    engine_->store(0, chunks);
    ASSERT_TRUE(engine_->await_present(0, chunks));
  }

  // Flips one byte of the payload of chunk `number` in the arena file.
  bool corrupt(std::uint64_t number) {
    const std::string path = directory_ + "/" + config_.memory.shm_name + ".arena";
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    std::string start(64, '\0');
    for (std::size_t i = 0; i < start.size(); ++i)
      start[i] = static_cast<char>(testing_support::Engine::expected(hash_of(number), i));
    std::string page(4096, '\0');
    for (std::uint64_t at = 0; at < config_.memory.size_bytes; at += page.size()) {
      file.seekg(static_cast<std::streamoff>(at));
      file.read(page.data(), static_cast<std::streamsize>(page.size()));
      if (page.compare(0, start.size(), start) != 0) continue;
      file.seekp(static_cast<std::streamoff>(at + 20000));
      file.put('!').put('?');
      return file.flush().good();
    }
    return false;
  }

  GatedClock gated_clock_;
  GatedEngine gated_;
  std::optional<EngineClient> engine_;
};

// covers F-001
TEST_F(ClientFailureTest, MissingSidecarIsAMissAndALaterOneIsUsed) {
  EngineClient engine(config_.socket, kPlainLayout);
  EXPECT_EQ(engine.client->wait_attached(50).code(), Code::kDeadlineExceeded);
  EXPECT_FALSE(engine.present(0, 1));
  EXPECT_EQ(engine.store(0, 2).refused, 2U);
  EXPECT_EQ(engine.load(0, 1).status, Code::kUnavailable);
  start();
  ASSERT_TRUE(engine.client->wait_attached(2000).ok());
  EXPECT_EQ(engine.store(0, 2).stored, 2U);
}

// covers F-002
TEST_F(ClientFailureTest, RestartedSidecarIsUsedAgainAndLoadsContinueMeanwhile) {
  start_with_stored(2, gated_);
  engine_->engine.wipe();
  const Result<std::uint64_t> ticket = engine_->client->load(engine_->transfer(0, 2), 5000);
  ASSERT_TRUE(ticket.ok());
  ASSERT_TRUE(gated_.gate.await_entered(2));  // both copies are under way
  stop();
  EXPECT_TRUE(wait([&] { return !engine_->client->state().attached; }));
  EXPECT_EQ(engine_->store(5, 1).refused, 1U);
  start();
  ASSERT_TRUE(wait([&] { return engine_->client->state().attachments == 2; }));
  EXPECT_TRUE(engine_->present(0, 2)) << "a new life starts warm";
  engine_->engine.wipe();
  gated_.gate.open();
  EXPECT_EQ(engine_->await(*ticket).status, Code::kOk)
      << "the old mapping lives as long as its copies";
  EXPECT_TRUE(engine_->holds(0, 2));
  EXPECT_EQ(engine_->store(7, 1).stored, 1U);
}

// Otherwise the next sidecar finds no room for an arena in a directory too small for two.
// covers F-013
TEST_F(ClientFailureTest, DeadSidecarMemoryIsUnmappedBeforeTheNextStarts) {
  config_.memory.keep_on_exit = false;
  const auto maps_the_arena = [] {
    std::ifstream maps("/proc/self/maps");
    const std::string text(std::istreambuf_iterator<char>(maps), {});
    return text.find("larder.arena") != std::string::npos;
  };
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  EXPECT_TRUE(maps_the_arena());
  stop();
  EXPECT_TRUE(wait([&] { return !maps_the_arena(); }));
  EXPECT_EQ(engine.client->state().attachments, 1U);
  EXPECT_FALSE(engine.client->state().usable);
  start();
  EXPECT_TRUE(engine.client->wait_attached(5000).ok());
}

// covers F-076
TEST_F(ClientFailureTest, ChunksStoredBeforeADropAreHiddenEvenWithSlowSidecar) {
  start(gated_clock_);
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  EXPECT_TRUE(wait([&] { return engine.store(0, 2).stored == 2; }));
  EXPECT_TRUE(engine.await_present(0, 2));
  {
    const std::lock_guard asleep(gated_clock_.gate);
    EXPECT_TRUE(engine.client->drop_namespace().ok());
    EXPECT_FALSE(engine.present(0, 1));
  }
  EXPECT_TRUE(wait([&] { return engine.store(0, 1).stored == 1; }));
  EXPECT_TRUE(engine.await_present(0, 1));
  EXPECT_FALSE(engine.present(1, 1)) << "the chunk stored before the drop is gone";
}

TEST_F(ClientFailureTest, DropWithoutSidecarIsDeliveredLater) {
  EngineClient engine(config_.socket, kPlainLayout);
  EXPECT_TRUE(engine.client->drop_namespace().ok());
  start();
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  EXPECT_EQ(engine.store(0, 1).stored, 1U);
  EXPECT_TRUE(engine.await_present(0, 1)) << "and it does not last";
}

TEST_F(ClientFailureTest, CorruptedSlotIsReportedDroppedAndStoredAgain) {
  start_with_stored(2);
  ASSERT_TRUE(corrupt(1));
  EXPECT_EQ(engine_->load(0, 1).status, Code::kOk);
  EXPECT_EQ(engine_->load(0, 2).status, Code::kDataLoss);
  ASSERT_TRUE(wait([&] { return !engine_->present(1, 1); })) << "BAD drops it";
  EXPECT_TRUE(wait([&] { return stats().bad_reported == 1; }));
  EXPECT_EQ(engine_->store(1, 1).stored, 1U);
  ASSERT_TRUE(engine_->await_present(1, 1));
  EXPECT_EQ(engine_->load(0, 2).status, Code::kOk);
}

TEST_F(ClientFailureTest, FailedLoadIsReportedAfterEveryWriterStopped) {
  gated_.fail_turn = 1;
  start_with_stored(4, gated_);
  const Result<std::uint64_t> ticket = engine_->client->load(engine_->transfer(0, 4), 5000);
  ASSERT_TRUE(ticket.ok());
  ASSERT_TRUE(gated_.gate.await_entered(2));  // one has failed, the other still writes
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(engine_->client->poll(16).empty());
  EXPECT_EQ(engine_->client->state().loads_running, 1U);
  gated_.gate.open();
  EXPECT_EQ(engine_->await(*ticket).status, Code::kDataLoss);
  EXPECT_EQ(engine_->client->state().loads_running, 0U);
}

TEST_F(ClientFailureTest, PollWaitsForALoadOnlyWhereOneRuns) {
  start_with_stored(1, gated_);
  constexpr std::chrono::milliseconds kLong(60'000);  // longer than this test may take
  EXPECT_TRUE(engine_->client->poll(16, kLong).empty());
  ASSERT_TRUE(engine_->client->load(engine_->transfer(0, 1), 5000).ok());
  ASSERT_TRUE(gated_.gate.await_entered(1));
  EXPECT_TRUE(engine_->client->poll(16, std::chrono::milliseconds(1)).empty());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gated_.gate.open();
  });
  EXPECT_EQ(engine_->client->poll(16, kLong).size(), 1U);
  opener.join();
}

// covers F-045
TEST_F(ClientFailureTest, LoadWithoutFreeThreadFailsAtItsDeadline) {
  start_with_stored(2, gated_);
  const Result<std::uint64_t> first = engine_->client->load(engine_->transfer(0, 2), 5000);
  ASSERT_TRUE(first.ok() && gated_.gate.await_entered(2));  // both threads are busy
  const Result<std::uint64_t> second = engine_->client->load(engine_->transfer(0, 1), 1);
  ASSERT_TRUE(second.ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gated_.gate.open();
  EXPECT_EQ(engine_->await(*second).status, Code::kDeadlineExceeded);
}

TEST_F(ClientFailureTest, ClosingWithQueuedLoadsEndsThem) {
  start_with_stored(2, gated_);
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(engine_->client->load(engine_->transfer(0, 2), 5000).ok());
  ASSERT_TRUE(gated_.gate.await_entered(2));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gated_.gate.open();
  });
  engine_->client.reset();
  opener.join();
}

// covers F-048
TEST_F(ClientFailureTest, LateGrantIsReturned) {
  start(gated_clock_);
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  EXPECT_TRUE(wait([&] { return engine.store(0, 1).stored == 1; }))
      << "memory is touched: requests are granted";
  {
    const std::lock_guard asleep(gated_clock_.gate);
    EXPECT_TRUE(engine.client->store_begin(engine.transfer(1, 1)).ok());
    EXPECT_EQ(engine.client->store_finish(0).refused, 1U);
  }
  EXPECT_TRUE(wait([&] { return stats().disowned == 1; }));
  EXPECT_TRUE(wait([&] { return stats().grants == 0; }));
  EXPECT_EQ(engine.client->state().stores_running, 0U);
}

}  // namespace
}  // namespace larder::client
