// A handshake that is lost after ATTACHED: larderd knows the engine by a session that the engine
// never hears of.
#include <filesystem>
#include <thread>

#include "tests/crash/crash_test.h"

namespace larder::crash {
namespace {

namespace fs = std::filesystem;

class Handshake : public CrashTest {
 protected:
  // Loses the session, and the next one between ATTACHED and NAMESPACE. From a thread of the
  // engine's process.
  bool lose_twice(Engine& engine) {
    page_.stop_at("attached_sent");
    engine.cut_off();
    if (!page_.await("attached_sent")) return false;
    engine.cut_off();
    page_.go("attached_sent");
    return true;
  }
};

// The hold keeps the first session's lock, so only a message of the third session can free the
// slot.
// covers F-007
TEST_F(Handshake, SlotStillWrittenIsFreedBySessionAfterLostHandshake) {
  const auto writer = engine([this](Engine& engine) {
    if (!store_at_last(engine, {2}, 1)) return 10;
    const std::uint64_t hold = engine.hold_all({2});
    page_.stop_at("store_half");
    std::thread cutter([&] {
      const bool lost = page_.await("store_half") && lose_twice(engine);
      tally_.loaded =
          lost && eventually([&] { return engine.client().state().attachments == 2; }) ? 1U : 2U;
    });
    const std::uint64_t stored = engine.store({1}, 111, 5000);
    cutter.join();
    if (hold == 0 || stored != 0) return 11;
    while (!tally_.stop) ::usleep(1000);
    if (engine.load({2}) != Code::kOk || !engine.holds_bytes_of({2}, 1)) return 12;
    return store_at_last(engine, {5}, 1) ? 0 : 13;
  });
  ASSERT_TRUE(eventually([&] { return tally_.loaded != 0; }, 20'000));
  ASSERT_EQ(tally_.loaded, 1U) << "it did not attach a third time";
  fill_with_others();
  EXPECT_EQ(world_.slots_in(SlotState::kQuarantined), 1U)
      << "its slot was handed on while it writes";
  page_.go("store_half");
  EXPECT_TRUE(eventually([&] { return world_.slots_in(SlotState::kQuarantined) == 0; }));
  tally_.stop = true;
  EXPECT_EQ(writer->wait(20'000), 0) << "12: its hold was not announced again";
  EXPECT_EQ(world_.leaks(), "");
}

// covers F-007
TEST_F(Handshake, RepeatedLostHandshakesLeakNothing) {
  const auto loser = engine([this](Engine& engine) {
    if (!store_at_last(engine, {1}, 7)) return 10;
    const auto descriptors = [] {
      return std::distance(fs::directory_iterator("/proc/self/fd"), {});
    };
    const auto before = descriptors();
    for (std::uint32_t i = 0; i < 5; ++i) {
      if (!lose_twice(engine)) return 11;
      if (!eventually([&] { return engine.client().state().attachments == i + 2; })) return 12;
      if (engine.load({1}) != Code::kOk || !engine.holds_bytes_of({1}, 7)) return 13;
    }
    return eventually([&] { return descriptors() == before; }) ? 0 : 14;
  });
  EXPECT_EQ(loser->wait(30'000), 0) << "14: descriptors are left";
  EXPECT_EQ(world_.leaks(), "");
}

// larderd starts again, is killed after it and before the engine knows of the return, and starts
// again.
// covers F-007
TEST_F(Handshake, ReattachedEngineIsAwaitedByTheNextLarderd) {
  const auto holder = engine([this](Engine& engine) {
    if (!store_at_last(engine, keys(1, slots_), 7)) return 10;
    const std::uint64_t hold = engine.hold_all({1});
    if (hold == 0) return 11;
    tally_.loaded = 1;
    while (tally_.stored == 0) ::usleep(1000);
    if (engine.load({1}) != Code::kOk || !engine.holds_bytes_of({1}, 7)) return 12;
    engine.client().release(hold);
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return tally_.loaded == 1; }));
  page_.stop_at("attached_sent");
  world_.restart();
  ASSERT_TRUE(page_.await("attached_sent"));
  ASSERT_TRUE(attached(1));
  world_.larderd().process().kill();
  page_.stop_at("hello_sent");
  page_.go("attached_sent");
  const auto began = std::chrono::steady_clock::now();
  world_.restart();
  ASSERT_TRUE(page_.await("hello_sent"));
  const std::uint64_t stored = stored_by_others();
  page_.go("hello_sent");
  if (std::chrono::steady_clock::now() - began >
      std::chrono::milliseconds(protocol::kHeartbeatTimeoutMs - 200))
    GTEST_SKIP() << "this machine is too slow just now: the engine was not awaited any more";
  EXPECT_EQ(stored, 0U) << "handed on before the engine could announce its holds";
  ASSERT_TRUE(attached(1));
  EXPECT_TRUE(eventually([&] { return stored_by_others() > 0; }));
  fill_with_others();
  tally_.stored = 1;
  EXPECT_EQ(holder->wait(20'000), 0)
      << "12: it was evicted under a hold that had been announced again";
  EXPECT_EQ(world_.leaks(), "");
}

}  // namespace
}  // namespace larder::crash
