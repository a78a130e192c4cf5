// make soak: engines of several kinds over a real larderd with memory and disk, a kill each 5 s.
// At the end no resource has grown, all slots are free and no byte was wrong. SOAK_MINUTES sets the
// time; the default is a quarter of a minute, with a kill every second.
//
// A kill of larderd frees leaked resources, so the test looks for growth in two ways, each for half
// of the time.
//   lives      larderd and engines are killed in turns (every third larderd by SIGTERM). larderd is
//              sampled just before each death, always at the same age: the parts that a life takes
//              over (arena, index, journal, disk) must not make the next life larger. The first
//              third of the lives is compared with the last.
//   one life   only engines are killed. The first third of the time fills memory, disk and the
//              allocator; of the rest, the first third is compared with the last.
// Slots, holds, grants, lock files and mappings are counted exactly, at the end, without engines
// (World::leaks()).
//
// The load: three engines under the model of restart_model.h, each with chunks of another size in a
// namespace of its own (stores, loads, fetches from disk, evict, pin, unpin, prefetch, drops), and
// two engines of victim.h in one namespace (holds, grants given back, lost sessions, good bytes
// reported as bad, drops).
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/crash/crash_test.h"
#include "tests/crash/larderd_watch.h"
#include "tests/crash/restart_model.h"

namespace larder::crash {
namespace {

using Clock = std::chrono::steady_clock;

struct Plan {
  std::chrono::milliseconds period{1000};
  int periods = 16;
  // SOAK_MINUTES
  static Plan wanted() {
    const char* text = std::getenv("SOAK_MINUTES");
    if (text == nullptr) return {};
    return {std::chrono::seconds(5), std::max(16, static_cast<int>(std::atof(text) * 60 / 5))};
  }
};

class Crew {
 public:
  explicit Crew(World& world) : world_(world) {
    for (std::uint64_t i = 0; i < kGroups.size(); ++i) {
      RestartModel& model = *models_.emplace_back(&RestartModel::make());
      model.below = true;
      model.space = i + 1;  // 0 is the victims'
      model.group = kGroups[i];
    }
    for (std::size_t seat = 0; seat < kSeats; ++seat) seats_.push_back(sit_down(seat));
  }
  ~Crew() { stop(); }

  // One victim after the other; another one takes the seat. "" or the fault of the one before.
  std::string kill_next() {
    const std::size_t seat = killed_++ % kSeats;
    const int status = seats_[seat]->kill();
    seats_[seat] = sit_down(seat);
    return status == 128 + SIGKILL ? "" : ended(seat, status);
  }
  std::string all_run() {
    std::string text;
    for (std::size_t seat = 0; seat < kSeats; ++seat)
      if (!seats_[seat]->running()) text += ended(seat, seats_[seat]->wait(0));
    return text;
  }
  std::string end() {
    stop();
    std::string text;
    for (std::size_t seat = 0; seat < kSeats; ++seat)
      if (const int status = seats_[seat]->wait(30'000); status != 0) text += ended(seat, status);
    return text;
  }
  std::uint64_t sum(std::atomic<std::uint64_t> RestartModel::*counter) const {
    std::uint64_t all = 0;
    for (const RestartModel* model : models_) all += model->*counter;
    return all;
  }
  const Tally& victims() const { return tally_; }
  std::uint64_t killed() const { return killed_; }

 private:
  // Slots of 36, 4 and 184 KiB.
  static constexpr std::array<client::Group, 3> kGroups{
      ChunkPages::kGroup, client::Group{1024 + 8, 3, 1}, client::Group{12288 + 8, 5, 3}};
  static constexpr std::size_t kSeats = kGroups.size() + 2;

  std::unique_ptr<ChildProcess> sit_down(std::size_t seat) {
    const std::uint64_t number = next_number_++;
    return std::make_unique<ChildProcess>([&] {
      if (seat < models_.size()) return live_by_model(world_.socket(), number, *models_[seat]);
      return live({world_.socket(), number, {}}, tally_);
    });
  }
  void stop() {
    for (RestartModel* model : models_) model->stop = true;
    tally_.stop = true;
  }
  static std::string ended(std::size_t seat, int status) {
    return "engine " + std::to_string(seat) + " ended with " + std::to_string(status) +
           ": 1 is no larderd, 3 a wrong byte, 4 a dropped chunk that is there, -1 it hangs\n";
  }

  World& world_;
  std::vector<RestartModel*> models_;
  Tally& tally_ = Tally::make();
  std::vector<std::unique_ptr<ChildProcess>> seats_;
  std::uint64_t next_number_ = 0, killed_ = 0;
};

class Soak : public testing::Test {
 protected:
  static constexpr std::uint64_t kDiskMib = 96, kDiskBytes = kDiskMib << 20;

  void wait_a_period() {
    std::this_thread::sleep_for(plan_.period);
    taken_ = std::max(taken_, disk_.taken_bytes());
    ASSERT_EQ(crew_.all_run(), "");
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  void watch(LarderdWatch& watch) { watch.take(world_.larderd().process().pid(), seconds()); }
  void restart(int signal) {
    world_.restart(signal);
    ++larderds_ended_;
  }
  void kill_larderds_and_engines() {
    for (int i = 0; i < plan_.periods / 2; ++i) {
      wait_a_period();
      if (HasFatalFailure()) return;
      if (i % 2 == 1) {
        ASSERT_EQ(crew_.kill_next(), "");
        continue;
      }
      if (i != 0) watch(lives_);  // that one was younger
      restart(i % 6 == 4 ? SIGTERM : SIGKILL);
    }
  }
  void kill_engines() {
    restart(SIGKILL);
    for (int i = 0; i < plan_.periods / 2; ++i) {
      wait_a_period();
      if (HasFatalFailure()) return;
      watch(one_life_);
      ASSERT_EQ(crew_.kill_next(), "");
    }
  }
  void print() const {
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    std::printf(
        "soak of %.0f s: %llu larderds and %llu engines ended; %llu chunks stored, %llu loads "
        "verified, %llu of them fetched from the disk, %llu drops\n",
        seconds(), number(larderds_ended_), number(crew_.killed()),
        number(crew_.sum(&RestartModel::stored) + crew_.victims().stored),
        number(crew_.sum(&RestartModel::loads) + crew_.victims().loaded),
        number(crew_.sum(&RestartModel::fetched)), number(crew_.sum(&RestartModel::drops)));
    std::printf("  %-24s %-24s %10s %10s %10s %12s\n", "", "", "first third", "last third", "most",
                "per minute");
    std::printf("%s%s", lives_.table().c_str(), one_life_.table().c_str());
    std::printf("  the disk took %.1f MiB of %.1f at most\n",
                static_cast<double>(taken_) / (1 << 20),
                static_cast<double>(kDiskBytes) / (1 << 20));
  }

  const Plan plan_ = Plan::wanted();
  const Clock::time_point began_ = Clock::now();
  const DiskFolder disk_;
  World world_{"32MiB", LARDERD_PATH, disk_.lines(kDiskMib, "back")};
  Crew crew_{world_};
  LarderdWatch lives_{"lives", 0}, one_life_{"one life", 1.0 / 3};
  std::uint64_t taken_ = 0, larderds_ended_ = 0;
};

TEST_F(Soak, LeaksNoResourceAndNoByteIsWrong) {
  kill_larderds_and_engines();
  if (!HasFatalFailure()) kill_engines();
  EXPECT_EQ(crew_.end(), "");
  print();
  EXPECT_EQ(crew_.victims().wrong, 0U);
  EXPECT_GT(crew_.sum(&RestartModel::fetched), 0U);
  EXPECT_LE(taken_, kDiskBytes);
#ifndef LARDER_SANITIZED  // their allocator keeps freed memory
  EXPECT_EQ(lives_.growth(), "");
  EXPECT_EQ(one_life_.growth(), "");
#endif
  EXPECT_EQ(world_.leaks(), "");
}

}  // namespace
}  // namespace larder::crash
