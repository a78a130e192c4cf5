// Engines and larderd in containers of their own: a process of one container has no number in
// another. Sockets and locks tell which processes live.
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/crash/container.h"
#include "tests/crash/crash_test.h"

namespace larder::crash {
namespace {

namespace fs = std::filesystem;

bool may_make_containers() {
  const NewPidNamespace container;
  return container.made() && ChildProcess([] { return mount_own_proc() ? 0 : 1; }).wait(5000) == 0;
}

std::string pid_namespace_of(pid_t pid) {
  return fs::read_symlink("/proc/" + std::to_string(pid) + "/ns/pid");
}

// The addresses of the arena in this process, as the kernel reports them.
std::string arena_places() {
  std::ifstream maps("/proc/self/maps");
  std::string places;
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(".arena")) places += line.substr(0, line.find(' ')) + " ";
  return places;
}

class Containers : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_make_containers()) GTEST_SKIP() << "needs the right to make PID and mount namespaces";
    const NewPidNamespace container;
    world_.emplace(kTinyArena, CONTAINED_LARDERD_PATH);
  }
  ~Containers() override { tally_.stop = true; }

  // Exit status 1: the engine could not attach; 2: the engine is in no container.
  template <typename Work>
  std::unique_ptr<ChildProcess> engine(const Work& work) {
    const NewPidNamespace container;
    auto process = std::make_unique<ChildProcess>([&] {
      if (::getpid() != 1 || !mount_own_proc()) return 2;
      announce_in(&page_);
      Engine engine(world_->socket());
      return engine.attached() ? work(engine) : 1;
    });
    EXPECT_NE(pid_namespace_of(process->pid()),
              pid_namespace_of(world_->larderd().process().pid()));
    EXPECT_NE(pid_namespace_of(process->pid()), pid_namespace_of(::getpid()));
    return process;
  }
  // As when the container of the engine ends and is started again.
  void restart_larderd() {
    const NewPidNamespace container;
    world_->restart();
    EXPECT_NE(pid_namespace_of(world_->larderd().process().pid()), pid_namespace_of(::getpid()));
  }
  // Stores far more than there is room for.
  void fill_with_others() {
    const auto others = engine([](Engine& engine) {
      for (std::uint64_t key = 100; key < 100 + 4 * Engine::kChunks; ++key)
        engine.store({key}, key, 1000);
      return 0;
    });
    EXPECT_EQ(others->wait(20'000), 0);
  }
  bool attached(std::int64_t engines) {
    return eventually([&] {
      return world_->larderd().status_number({"sessions", "attached"}) == engines;
    });
  }

  std::optional<World> world_;
  PointPage& page_ = PointPage::make();
  Tally& tally_ = Tally::make();
};

// covers F-006
TEST_F(Containers, EngineKeepsItsMappingWhenLarderdRestartsInAnotherContainer) {
  const std::uint64_t slots = world_->slots();
  const auto reader = engine([&](Engine& engine) {
    if (!store_at_last(engine, keys(1, slots), 7)) return 10;
    const std::uint64_t hold = engine.hold_all({1});
    const std::uint64_t epoch = engine.client().state().epoch;
    const std::string places = arena_places();
    if (hold == 0 || places.empty()) return 11;
    tally_.loaded = 1;
    if (!eventually([&] { return engine.client().state().attachments == 2; }, 10'000)) return 12;
    if (engine.client().state().epoch == epoch ||
        !eventually([&] { return arena_places() == places; }))
      return 13;
    for (const std::uint64_t key : keys(1, slots)) {
      if (!engine.present(key)) return 14;
      if (engine.load({key}) != Code::kOk) return 15;
      if (!engine.holds_bytes_of({key}, 7)) return 3;
    }
    ++tally_.stored;
    while (!tally_.stop) ::usleep(1000);
    if (engine.load({1}) != Code::kOk || !engine.holds_bytes_of({1}, 7)) return 16;
    engine.client().release(hold);
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return tally_.loaded == 1; }, 10'000)) << reader->wait(0);
  restart_larderd();
  EXPECT_TRUE(eventually([&] { return tally_.stored == 1; }, 20'000)) << reader->wait(0);
  fill_with_others();
  tally_.stop = true;
  EXPECT_EQ(reader->wait(20'000), 0) << "13: epoch or mapping, 14: a miss, 15: a failed load, 3: a "
                                        "wrong byte, 16: evicted under a hold";
  EXPECT_EQ(world_->leaks(), "");
}

// covers F-006
TEST_F(Containers, GrantedSlotIsNotReusedUntilItsWriterStopsOrDies) {
  for (const bool dies : {false, true}) {
    const auto writer = engine([this](Engine& engine) {
      page_.stop_at("store_half");
      return engine.store({1}, 7, 5000) == 0 ? 0 : 10;
    });
    ASSERT_TRUE(page_.await("store_half"));
    restart_larderd();
    ASSERT_TRUE(attached(1));
    EXPECT_EQ(world_->slots_in(SlotState::kQuarantined), 1U);
    fill_with_others();
    EXPECT_EQ(world_->slots_in(SlotState::kQuarantined), 1U) << "handed on while its writer lives";
    if (dies) {
      writer->kill();
    } else {
      page_.go("store_half");
      EXPECT_EQ(writer->wait(20'000), 0) << "10: a store into the dead one was believed";
    }
    EXPECT_TRUE(eventually([&] { return world_->slots_in(SlotState::kQuarantined) == 0; }))
        << "dies: " << dies;
    page_.disarm();
  }
  EXPECT_EQ(world_->leaks(), "");
}

// covers F-006
TEST_F(Containers, EngineDeathFreesItsHoldsAndGrants) {
  const auto writer = engine([this](Engine& engine) {
    if (!store_at_last(engine, {2}, 7) || engine.hold_all({2}) == 0) return 10;
    page_.stop_at("store_half");
    engine.store({1}, 7, 5000);
    return sleep_for_ever();
  });
  ASSERT_TRUE(page_.await("store_half"));
  EXPECT_EQ(world_->slots_in(SlotState::kGranted), 1U);
  writer->kill();
  EXPECT_GE(world_->until_empty(1500).count(), 0) << "not before silence would have told";
  EXPECT_EQ(world_->leaks(), "");
}

}  // namespace
}  // namespace larder::crash
