// docs/design/architecture.md section 4, "Life and death", with real processes: a stopped, cut off,
// dead or greedy engine costs itself, and no other engine.
#include <sys/prctl.h>

#include <cstdio>

#include "tests/crash/crash_test.h"
#include "tests/unit/loop/client.h"

namespace larder::crash {
namespace {

class SessionDeath : public CrashTest {};

// covers F-041
TEST_F(SessionDeath, LateWriteOfStoppedEngineCorruptsNoChunk) {
  const auto writer = engine([this](Engine& engine) {
    if (!store_at_last(engine, {2}, 1) || engine.hold_all({2}) == 0) return 10;
    page_.stop_at("store_half");
    if (engine.store({1}, 111, 5000) == 0) return 11;  // believed to be stored: a COMMIT is one way
    if (!store_at_last(engine, {5}, 1)) return 12;     // and the engine is served as before
    ++tally_.stored;
    while (!tally_.stop) ::usleep(1000);  // the end of the engine would free its resources
    return 0;
  });
  ASSERT_TRUE(page_.await("store_half"));
  ASSERT_EQ(world_.slots_in(SlotState::kGranted), 1U);
  writer->signal(SIGSTOP);
  page_.go("store_half");  // the engine would go on if possible
  ASSERT_TRUE(eventually([&] { return world_.slots_in(SlotState::kQuarantined) == 1; }));
  EXPECT_EQ(world_.slots_in(SlotState::kGranted), 0U);

  fill_with_others();
  const auto other = engine([](Engine& engine) {
    if (engine.present(2)) return 10;                 // the hold must not have counted
    return store_at_last(engine, {1}, 222) ? 0 : 11;  // a quarantined slot does not block its key
  });
  EXPECT_EQ(other->wait(20'000), 0);
  EXPECT_EQ(world_.slots_in(SlotState::kQuarantined), 1U)
      << "its slot was handed on while it may still write";

  writer->signal(SIGCONT);
  ASSERT_TRUE(eventually([&] { return tally_.stored == 1; }, 20'000));
  EXPECT_TRUE(eventually([&] { return status({"stores", "refused_commit"}) == 1; }));
  EXPECT_EQ(world_.slots_in(SlotState::kQuarantined), 0U)
      << "its slot comes back when it has stopped";
  tally_.stop = true;
  EXPECT_EQ(writer->wait(20'000), 0);
  const auto reader = engine([](Engine& engine) {
    return engine.load({1}) == Code::kOk && engine.holds_bytes_of({1}, 222) ? 0 : 10;
  });
  EXPECT_EQ(reader->wait(20'000), 0);
  EXPECT_GT(all_visible_verify(), slots_ / 2);
  EXPECT_EQ(world_.leaks(), "");
}

// The GPU of a killed engine goes on with a copy under way: played by a process that writes the
// slot after the engine's death.
// covers F-018
TEST_F(SessionDeath, LateGpuWriteOfDeadEngineCorruptsNoChunk) {
  const auto writer = engine([this](Engine& engine) {
    engine.copies_as_a_device();
    page_.stop_at("store_half");
    engine.store({1}, 111, 5000);
    return 0;
  });
  ASSERT_TRUE(page_.await("store_half"));
  ASSERT_EQ(world_.slots_in(SlotState::kGranted), 1U);
  const auto killed = std::chrono::steady_clock::now();
  writer->kill();
  fill_with_others();
  const std::uint32_t set_aside = world_.scribble_over(SlotState::kQuarantined);
  // A machine that takes longer than this time proves no rule here.
  if (std::chrono::steady_clock::now() - killed < std::chrono::milliseconds(2500)) {
    EXPECT_EQ(set_aside, 1U) << "its slot was handed on while its GPU may write";
  }
  EXPECT_TRUE(eventually([&] { return world_.slots_in(SlotState::kQuarantined) == 0; }, 20'000))
      << "and then it comes back";
  EXPECT_GT(all_visible_verify(), 0U);
  EXPECT_EQ(world_.leaks(), "");
}

// covers F-020
TEST_F(SessionDeath, SlotOfLostSessionIsNotReusedUntilItsWriterStops) {
  const auto writer = engine([this](Engine& engine) {
    page_.stop_at("store_half");
    std::thread cutter([&] {
      if (page_.await("store_half")) engine.cut_off();
    });
    const std::uint64_t stored = engine.store({1}, 111, 5000);
    cutter.join();
    if (stored != 0) return 10;
    return store_at_last(engine, {5}, 1) ? 0 : 11;
  });
  ASSERT_TRUE(page_.await("store_half"));
  ASSERT_TRUE(eventually([&] { return world_.slots_in(SlotState::kQuarantined) == 1; }));
  EXPECT_TRUE(eventually([&] {
    return status({"sessions", "attached"}) == 1;
  })) << "it attaches again meanwhile";
  fill_with_others();
  EXPECT_EQ(world_.slots_in(SlotState::kQuarantined), 1U)
      << "its slot was handed on while it writes";
  page_.go("store_half");
  EXPECT_EQ(writer->wait(20'000), 0);
  EXPECT_TRUE(eventually([&] { return world_.slots_in(SlotState::kQuarantined) == 0; }));
  EXPECT_GT(all_visible_verify(), slots_ / 2);
  EXPECT_EQ(world_.leaks(), "");
}

TEST_F(SessionDeath, LookupsContinueWhileLostSessionIsUnmapped) {
  const auto reader = engine([this](Engine& engine) {
    if (!store_at_last(engine, {1}, 1)) return 10;
    page_.stop_at("attachment_ends");
    engine.cut_off();
    if (!page_.await("attachment_ends")) return 11;
    std::thread asker([&] {
      if (engine.present(1)) ++tally_.loaded;
    });
    const bool answered = eventually([&] { return tally_.loaded == 1; }, 2000);
    page_.go("attachment_ends");
    asker.join();
    return answered ? 0 : 12;
  });
  EXPECT_EQ(reader->wait(20'000), 0) << "12: the look-up waited";
  EXPECT_EQ(world_.leaks(), "");
}

TEST_F(SessionDeath, LastReaderOfLostSessionMemoryDoesNotUnmap) {
  const auto reader = engine([this](Engine& engine) {
    if (!store_at_last(engine, {1}, 1)) return 10;
    const std::uint64_t hold = engine.hold_all({1});
    engine.cut_off();
    if (hold == 0 || !eventually([&] { return engine.client().state().attachments >= 2; }))
      return 11;
    page_.stop_at("attachment_ends");
    std::thread scheduler([&] {
      engine.client().release(hold);
      ++tally_.loaded;
    });
    const bool released = eventually([&] { return tally_.loaded == 1; }, 2000);
    if (!page_.await("attachment_ends")) return 12;
    page_.go("attachment_ends");
    scheduler.join();
    return released ? 0 : 13;
  });
  EXPECT_EQ(reader->wait(20'000), 0) << "12: nobody unmaps it; 13: who let go of it had to";
  EXPECT_EQ(world_.leaks(), "");
}

// covers F-019
TEST_F(SessionDeath, ForkedChildWithSocketDoesNotHideEngineDeath) {
  const auto writer = engine([this](Engine& engine) {
    if (::fork() == 0) {  // inherits socket and mappings
      ::prctl(PR_SET_PDEATHSIG, 0);
      ++tally_.loaded;
      for (int i = 0; i < 3000 && !tally_.stop; ++i) ::usleep(10'000);
      ++tally_.stored;
      ::_exit(0);
    }
    page_.stop_at("store_half");
    engine.store({1}, 111, 5000);
    return sleep_for_ever();
  });
  ASSERT_TRUE(page_.await("store_half"));
  ASSERT_TRUE(eventually([&] { return tally_.loaded == 1; }));
  writer->signal(SIGKILL);
  const auto reclaimed = world_.until_empty(1500);  // silence alone would need 2 s
  EXPECT_GE(reclaimed.count(), 0) << "not within 1.5 s";
  EXPECT_EQ(tally_.stored, 0U) << "the child was to outlive it";
  std::printf("reclaimed in %s\n", percentiles({reclaimed}).c_str());
  tally_.stop = true;
  EXPECT_TRUE(eventually([&] { return tally_.stored == 1; }));
  EXPECT_EQ(world_.leaks(), "");
}

// A stranger of the same slot size, spoken to directly: one round trip asks for room.
class Asker {
 public:
  explicit Asker(const std::string& socket) : client_(socket) {
    client_.attach();
    const auto piece_bytes = static_cast<std::uint32_t>(ChunkPages::kGroup.payload_bytes() / 2);
    handle_ = client_.open_namespace("engine: asker\n", piece_bytes);
  }
  // Asks for a slot for each of `count` new chunks. Returns the number of grants.
  std::size_t take(std::size_t count) {
    std::vector<protocol::BlockHash> hashes(count);
    for (protocol::BlockHash& hash : hashes) hash = {++asked_, 1};
    for (const protocol::Grant& grant : client_.reserve(handle_, hashes))
      if (grant.status == 0) granted_.push_back(grant);
    client_.beat();
    return granted_.size();
  }
  void give_back() {
    for (const protocol::Grant& grant : granted_)
      client_.send_slot(protocol::MessageType::kDisown, grant.slot, grant.generation);
    granted_.clear();
    client_.reserve(handle_, {});  // all before the drop is done
  }

 private:
  loop::testing_support::Client client_;
  std::uint32_t handle_ = 0;
  static inline std::uint64_t asked_ = 0;
  std::vector<protocol::Grant> granted_;
};

// covers F-017
TEST_F(SessionDeath, HoldsAndGrantsOfDeadEngineAreFreedAtOnce) {
  const std::uint64_t held = slots_ / 2;  // more is not honoured of one engine
  Asker one(world_.socket()), other(world_.socket());
  const auto room = [&] {
    const std::size_t slots = one.take(held) + other.take(slots_ - held);
    one.give_back();
    other.give_back();
    return slots;
  };
  std::vector<std::chrono::nanoseconds> times;
  for (int i = 0; i < (whole() ? 500 : 20); ++i) {
    ASSERT_TRUE(eventually([&] { return room() == slots_; }));
    page_.disarm();
    const auto greedy = engine([this, held](Engine& engine) {
      if (!store_at_last(engine, keys(0, held), 1) || engine.hold_all(keys(0, held)) == 0)
        return 10;
      page_.stop_at("store_half");
      engine.store(keys(held, slots_ - held), 1, 5000);
      return sleep_for_ever();
    });
    ASSERT_TRUE(page_.await("store_half"));
    ASSERT_EQ(room(), 0U) << "all slots are held or granted";
    const auto killed = std::chrono::steady_clock::now();
    greedy->signal(SIGKILL);
    bool all = false;
    while (!all && std::chrono::steady_clock::now() < killed + std::chrono::seconds(5))
      all = room() == slots_;
    ASSERT_TRUE(all) << "not within 5 s";
    times.push_back(std::chrono::steady_clock::now() - killed);
  }
  std::printf("from kill until all %llu slots were granted to another: %s (goal: p99 10 ms)\n",
              static_cast<unsigned long long>(slots_), percentiles(times).c_str());
}

// covers F-059
TEST_F(SessionDeath, FullyHeldArenaRefusesStoresAndServesLoads) {
  // half of all: one engine gets no more
  const auto holder = [this](std::uint64_t first, std::uint64_t count) {
    return engine([this, first, count](Engine& engine) {
      const std::vector<std::uint64_t> half = keys(first, count);
      if (!store_at_last(engine, half, 7)) return 10;
      const std::uint64_t hold = engine.hold_all(half);
      if (hold == 0) return 11;
      ++tally_.stored;
      while (!tally_.stop) ::usleep(1000);
      engine.client().release(hold);
      return store_at_last(engine, {1000 + first}, 7) ? 0 : 12;
    });
  };
  const auto one = holder(0, slots_ / 2);
  ASSERT_TRUE(eventually([&] { return tally_.stored == 1; }));
  const auto two = holder(slots_ / 2, slots_ - slots_ / 2);
  ASSERT_TRUE(eventually([&] { return tally_.stored == 2; }));
  const auto other = engine([this](Engine& engine) {
    for (int round = 0; round < 20; ++round) {
      if (engine.store(keys(2000 + 8 * round, 8), 7, 1000) != 0) return 10;
      if (engine.load(keys(0, slots_)) != Code::kOk) return 11;
      if (!engine.holds_bytes_of(keys(0, slots_))) return 12;
    }
    return 0;
  });
  EXPECT_EQ(other->wait(30'000), 0)
      << "10: stored where all is held; 11: a load failed; 12: a wrong byte";
  EXPECT_TRUE(eventually([&] { return status({"stores", "refused_no_space"}) >= 8 * 20; }));
  tally_.stop = true;
  EXPECT_EQ(one->wait(20'000), 0);
  EXPECT_EQ(two->wait(20'000), 0);
  EXPECT_EQ(world_.leaks(), "");
}

}  // namespace
}  // namespace larder::crash
