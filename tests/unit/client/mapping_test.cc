// A mapping is closed only after the last look-up and the last copy of this process, and is closed
// then.
#include <gtest/gtest.h>

#include <fstream>
#include <stop_token>
#include <thread>
#include <tuple>

#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::EngineClient;
using testing_support::kPlainLayout;

class MappingTest : public loop::testing_support::SidecarTest {
 protected:
  MappingTest() { config_.memory.size_bytes = 16 << 20; }

  // Arenas of this test that this process maps, larderd's own mapping among these.
  std::size_t arenas() const {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
      count += line.find(directory_ + "/larder.arena") != std::string::npos;
    return count;
  }
  static void store_and_hold_two(EngineClient& engine, std::uint64_t& hold) {
    engine.store(0, 2);
    ASSERT_TRUE(engine.await_present(0, 2));
    const Transfer chunks = engine.transfer(0, 2);
    std::size_t held = 0;
    std::tie(hold, held) = engine.client->hold(testing_support::hashes_of(chunks.hashes));
    ASSERT_EQ(held, 2U);
  }
};

// covers F-003
TEST_F(MappingTest, RestartedSidecarAndClientKeepTheArena) {
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  std::uint64_t hold = 0;
  ASSERT_NO_FATAL_FAILURE(store_and_hold_two(engine, hold));
  for (std::uint32_t life = 2; life <= 3; ++life) {
    stop();
    EXPECT_TRUE(engine.present(0, 2)) << "no larderd is needed to look up";
    start();
    ASSERT_TRUE(wait([&] { return engine.client->state().attachments == life; }));
    EXPECT_EQ(arenas(), 2U) << "larderd's and the client's";
    EXPECT_TRUE(wait([&] { return stats().holds == 2; })) << "earlier holds are announced again";
    engine.engine.wipe();
    EXPECT_EQ(engine.load(0, 2).status, Code::kOk);
    EXPECT_TRUE(engine.holds(0, 2));
  }
  engine.client->release(hold);
  EXPECT_TRUE(wait([&] { return stats().holds == 0; }));
}

TEST_F(MappingTest, HoldKeepsItsArenaMapped) {
  config_.memory.keep_on_exit = false;  // the next one has another arena
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  std::uint64_t hold = 0;
  ASSERT_NO_FATAL_FAILURE(store_and_hold_two(engine, hold));
  stop();
  start();
  ASSERT_TRUE(wait([&] { return engine.client->state().attachments == 2; }));
  EXPECT_EQ(arenas(), 3U) << "larderd's, the client's new one, and the old one";
  engine.client->release(hold);
  EXPECT_TRUE(wait([&] { return arenas() == 2; })) << arenas();
}

TEST_F(MappingTest, ThreadsLookUpHoldAndLoadDuringSidecarRestarts) {
  config_.memory.keep_on_exit = false;
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  const Transfer chunks = engine.transfer(0, 2);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&](const std::stop_token& stopped) {
      while (!stopped.stop_requested()) {
        const auto [hold, held] = engine.client->hold(testing_support::hashes_of(chunks.hashes));
        engine.client->lookups().present(testing_support::hashes_of(chunks.hashes));
        engine.client->report(protocol::EventKind::kRequest, 1, 1, 1);
        if (hold != 0) engine.client->release(hold);
      }
    });
  std::uint64_t right = 0;
  for (std::uint32_t life = 1; life <= 4; ++life) {
    ASSERT_TRUE(wait([&] { return engine.store(0, 2).stored == 2; }));
    ASSERT_TRUE(engine.await_present(0, 2));
    engine.engine.wipe();
    const bool loaded = engine.load(0, 2).status == Code::kOk;
    right += loaded && engine.holds(0, 2);
    stop();
    start();
    ASSERT_TRUE(wait([&] { return engine.client->state().attachments == life + 1; }));
  }
  threads.clear();  // stops and joins the threads
  EXPECT_EQ(right, 4U);
  EXPECT_TRUE(wait([&] { return arenas() == 2; }))
      << "no old arena is left, but there are " << arenas();
}

}  // namespace
}  // namespace larder::client
