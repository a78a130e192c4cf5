// larderd killed, stopped and started again under living engines: stored chunks are there, and no
// engine gets a slot that another engine may still read or write.
#include <filesystem>

#include "tests/crash/crash_test.h"

namespace larder::crash {
namespace {

class Restart : public CrashTest {
 protected:
  // Fills the arena with keys from 1 on, of content 7.
  bool fill(Engine& engine) { return store_at_last(engine, keys(1, slots_), 7); }
  // Until the test says so.
  void await_order() {
    while (tally_.stored == 0) ::usleep(1000);
  }
  // larderd waits for the engines of the larderd before as long as an engine may be silent.
  static bool its_time_is_up(std::chrono::steady_clock::time_point began) {
    return std::chrono::steady_clock::now() - began >
           std::chrono::milliseconds(protocol::kHeartbeatTimeoutMs - 200);
  }
  // A larderd of the same files with announced points, until it is killed at a point.
  void die_starting_at(std::string_view point) {
    page_.stop_at(point);
    ChildProcess larderd([this] { return serve(); });
    EXPECT_TRUE(page_.await(point)) << point;
    EXPECT_EQ(larderd.kill(), 128 + SIGKILL);
    page_.disarm();
  }
};

// covers F-005
TEST_F(Restart, SlotHeldAcrossRestartIsNotReused) {
  const auto holder = engine([this](Engine& engine) {
    if (!fill(engine)) return 10;
    const std::uint64_t hold = engine.hold_all({1});
    if (hold == 0) return 11;
    page_.stop_at("hello_sent");  // at the new attachment
    tally_.loaded = 1;
    await_order();
    if (engine.load({1}) != Code::kOk || !engine.holds_bytes_of({1}, 7)) return 12;
    engine.client().release(hold);
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return tally_.loaded == 1; }));
  const auto began = std::chrono::steady_clock::now();
  world_.restart();
  ASSERT_TRUE(page_.await("hello_sent"));
  const std::uint64_t stored = stored_by_others();
  page_.go("hello_sent");
  if (its_time_is_up(began))
    GTEST_SKIP() << "this machine is too slow just now: the engine was not awaited any more";
  EXPECT_EQ(stored, 0U) << "handed on before the engine could announce its holds";
  ASSERT_TRUE(attached(1));
  EXPECT_TRUE(eventually([&] { return stored_by_others() > 0; })) << "the others have come back";
  fill_with_others();
  tally_.stored = 1;
  EXPECT_EQ(holder->wait(20'000), 0)
      << "12: it was evicted under a hold that had been announced again";
  EXPECT_EQ(world_.leaks(), "");
}

// covers F-005
TEST_F(Restart, MissingEngineIsAwaitedForABoundedTime) {
  const auto holder = engine([this](Engine& engine) {
    if (!fill(engine) || engine.hold_all({1}) == 0) return 10;
    tally_.loaded = 1;
    return sleep_for_ever();
  });
  ASSERT_TRUE(eventually([&] { return tally_.loaded == 1; }));
  holder->signal(SIGSTOP);
  const auto began = std::chrono::steady_clock::now();
  world_.restart();
  const std::uint64_t stored = stored_by_others();
  EXPECT_TRUE(stored == 0 || its_time_is_up(began));
  EXPECT_TRUE(eventually([&] { return stored_by_others() > 0; }, 4000))
      << "it may be stopped for hours";
  holder->signal(SIGCONT);
  EXPECT_TRUE(attached(1));
}

// covers F-005
TEST_F(Restart, SlotGrantedByPreviousLarderdIsNotReusedUntilItsWriterStops) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    const auto writer = engine([this](Engine& engine) {
      page_.stop_at("store_half");
      return engine.store({1}, 7, 5000) == 0 ? 0 : 10;
    });
    ASSERT_TRUE(page_.await("store_half"));
    world_.restart(signal);
    ASSERT_TRUE(attached(1));
    EXPECT_EQ(world_.slots_in(SlotState::kQuarantined), 1U);
    fill_with_others();
    EXPECT_EQ(world_.slots_in(SlotState::kQuarantined), 1U);
    page_.go("store_half");
    EXPECT_EQ(writer->wait(20'000), 0) << "10: a store into the dead one was believed";
    EXPECT_GT(all_visible_verify(), 0U);
    EXPECT_TRUE(eventually([&] { return world_.slots_in(SlotState::kQuarantined) == 0; }));
  }
  EXPECT_EQ(world_.leaks(), "");
}

// larderd and the writer die at once, as in a killed pod: no process saw the writer end.
// covers F-018
TEST_F(Restart, SlotWrittenByGpuOfDeadEngineStaysQuarantinedAcrossRestart) {
  const auto writer = engine([this](Engine& engine) {
    engine.copies_as_a_device();
    page_.stop_at("store_half");
    engine.store({1}, 7, 5000);
    return 0;
  });
  ASSERT_TRUE(page_.await("store_half"));
  const auto killed = std::chrono::steady_clock::now();
  world_.restart(SIGKILL, [&] { writer->kill(); });
  const bool in_time = std::chrono::steady_clock::now() - killed < std::chrono::milliseconds(2500);
  if (in_time) {
    EXPECT_EQ(world_.slots_in(SlotState::kQuarantined), 1U);
  }
  EXPECT_TRUE(eventually([&] { return stored_by_others() > 0; }, 2000))
      << "no engine is waited for";
  EXPECT_TRUE(eventually([&] { return world_.slots_in(SlotState::kQuarantined) == 0; }, 20'000));
  EXPECT_EQ(world_.leaks(), "");
}

// The lock file tells, also if the writer dies after larderd did and a child of the writer keeps
// the old socket.
// covers F-005
TEST_F(Restart, SlotOfWriterThatDiesAfterRestartIsFreed) {
  const auto writer = engine([this](Engine& engine) {
    if (::fork() == 0) {
      ::alarm(20);
      return sleep_for_ever();
    }
    page_.stop_at("store_half");
    page_.stop_at("hello_sent");
    engine.store({1}, 7, 5000);
    return 0;
  });
  ASSERT_TRUE(page_.await("store_half"));
  world_.restart();
  ASSERT_TRUE(page_.await("hello_sent"));
  EXPECT_EQ(world_.slots_in(SlotState::kQuarantined), 1U);
  writer->kill();
  EXPECT_TRUE(eventually([&] { return world_.slots_in(SlotState::kQuarantined) == 0; }));
  EXPECT_EQ(world_.leaks(), "");
}

// covers F-004
TEST_F(Restart, DeathDuringRestartCostsNothing) {
  const auto before = engine([this](Engine& engine) { return fill(engine) ? 0 : 10; });
  ASSERT_EQ(before->wait(20'000), 0);
  world_.larderd().process().kill();
  for (const std::string_view point :
       {"restore_chosen", "index_unpublished", "index_published", "settled"})
    die_starting_at(point);
  world_.restart();
  const auto after = engine([this](Engine& engine) {
    for (const std::uint64_t key : keys(1, slots_))
      if (engine.load({key}) != Code::kOk || !engine.holds_bytes_of({key}, 7)) return 10;
    return 0;
  });
  EXPECT_EQ(after->wait(20'000), 0) << "10: a chunk is gone";
  EXPECT_EQ(world_.leaks(), "");
}

// covers F-003
TEST_F(Restart, LookupsAndLoadsContinueDuringRestart) {
  const auto reader = engine([this](Engine& engine) {
    if (!fill(engine)) return 10;
    tally_.loaded = 1;
    while (!tally_.stop) {
      const std::uint64_t key = 1 + ++tally_.stored % slots_;
      if (!engine.present(key)) return 11;
      if (engine.load({key}) != Code::kOk) return 12;
      if (!engine.holds_bytes_of({key}, 7)) return 3;
    }
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return tally_.loaded == 1; }));
  for (int i = 0; i < 3; ++i) {
    world_.larderd().process().kill();
    const std::uint64_t then = tally_.stored;
    EXPECT_TRUE(eventually([&] { return tally_.stored > then + 20; })) << "with no larderd at all";
    world_.restart();
    ASSERT_TRUE(attached(1));
  }
  tally_.stop = true;
  EXPECT_EQ(reader->wait(20'000), 0) << "11: a miss, 12: a failed load, 3: a wrong byte";
}

}  // namespace
}  // namespace larder::crash
