// larderd killed under load, over memory alone and over memory and disk, with a model of the
// expected bytes (restart_model.h); and the time until an engine hits again in 10 GiB.
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <random>

#include "tests/crash/crash_test.h"
#include "tests/crash/restart_model.h"

namespace larder::crash {
namespace {

// The number of kills: RESTART_KILLS, else `large` in the whole suite, else `small`.
int wanted_kills(int small, int large) {
  if (const char* text = std::getenv("RESTART_KILLS")) return std::atoi(text);
  return whole() ? large : small;
}

// larderd, two engines with their models, and rounds: larderd dies, the engines record their
// chunks, another larderd starts, the engines check their chunks.
class UnderLoad {
 public:
  // `below`: where the world has a disk.
  UnderLoad(World& world, bool below) : world_(world), below_(below) {
    for (std::uint64_t i = 0; i < 2; ++i) {
      RestartModel& model = *models_.emplace_back(&RestartModel::make());
      model.below = below;
      model.space = below ? i : 0;
      engines_.push_back(
          std::make_unique<ChildProcess>([&] { return live_by_model(world.socket(), i, model); }));
    }
  }
  ~UnderLoad() {
    for (RestartModel* model : models_) model->stop = true;
  }

  bool attached() {
    return all_have([](const RestartModel& model) { return model.attached.load(); });
  }
  // False: an engine has ended, or does not go on. `dead`: is called while there is no larderd.
  bool round(std::uint64_t number, int signal, const std::function<void()>& dead) {
    bool noted = true;
    world_.restart(signal, [&] {
      dead();
      if (!below_) return;  // the engines go on there undisturbed
      for (RestartModel* model : models_) model->died = number;
      noted = all_have([&](const RestartModel& model) { return model.noted == number; });
    });
    for (RestartModel* model : models_) {
      model->started = number;
      model->died = number;
    }
    const bool checked =
        noted && all_have([&](const RestartModel& model) { return model.checked == number; });
    for (RestartModel* model : models_) model->go_on = number;
    const bool probed =
        checked && all_have([&](const RestartModel& model) { return model.probed == number; });
    for (const auto& engine : engines_)
      EXPECT_TRUE(engine->running())
          << engine->wait(0) << ": 3 is a wrong byte, 4 a gone chunk has risen";
    return probed && !testing::Test::HasFailure();
  }
  // Their exit status.
  void end() {
    for (RestartModel* model : models_) model->stop = true;
    for (const auto& engine : engines_) EXPECT_EQ(engine->wait(30'000), 0);
  }
  std::uint64_t sum(std::atomic<std::uint64_t> RestartModel::*counter) const {
    std::uint64_t all = 0;
    for (const RestartModel* model : models_) all += model->*counter;
    return all;
  }

 private:
  template <typename Condition>
  bool all_have(const Condition& condition) {
    for (std::size_t e = 0; e < models_.size(); ++e)
      if (!eventually([&] { return condition(*models_[e]) || !engines_[e]->running(); }, 30'000))
        return false;
    return true;
  }

  World& world_;
  const bool below_;
  std::vector<RestartModel*> models_;
  std::vector<std::unique_ptr<ChildProcess>> engines_;
};

// `kills` by SIGKILL, and one SIGTERM after each ninth kill.
void kill_under(UnderLoad& load, int kills, const std::function<void()>& dead) {
  ASSERT_TRUE(load.attached());
  std::mt19937_64 random(41);
  std::uint64_t number = 0;
  for (int killed = 0; killed < kills;) {
    const bool term = ++number % 10 == 0;
    killed += term ? 0 : 1;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 80'000));
    ASSERT_TRUE(load.round(number, term ? SIGTERM : SIGKILL, dead)) << "in round " << number;
  }
  load.end();
  const std::uint64_t acknowledged = load.sum(&RestartModel::acknowledged),
                      back = load.sum(&RestartModel::back);
  EXPECT_GT(acknowledged, static_cast<std::uint64_t>(kills) * 20);
  EXPECT_GE(static_cast<double>(back), 0.999 * static_cast<double>(acknowledged));
  std::printf("%d kills: %llu of %llu acknowledged chunks were back, %llu loads verified\n", kills,
              static_cast<unsigned long long>(back), static_cast<unsigned long long>(acknowledged),
              static_cast<unsigned long long>(load.sum(&RestartModel::loads)));
}

// covers F-003
TEST(KillLarderdUnderLoad, AcknowledgedChunksSurviveAndNoByteIsWrong) {
  World world("96MiB");
  UnderLoad load(world, false);
  kill_under(load, wanted_kills(20, 300), [] {});
  EXPECT_EQ(world.leaks(), "");
}

// The engines' chunks are two and a half times the memory, and the stores over time many times the
// disk.
TEST(KillLarderdUnderLoad, AcknowledgedChunksSurviveWithDisk) {
  constexpr std::uint64_t kDiskMib = 34, kDiskBytes = kDiskMib << 20;
  const DiskFolder disk;
  World world("16MiB", LARDERD_PATH, disk.lines(kDiskMib, "through"));
  UnderLoad load(world, true);
  std::uint64_t most = 0;
  const int kills = wanted_kills(20, 1000);
  kill_under(load, kills, [&] { most = std::max(most, disk.taken_bytes()); });
  EXPECT_GT(most, 0U);
  EXPECT_LE(most, kDiskBytes);
  const std::uint64_t stored = load.sum(&RestartModel::stored),
                      before = load.sum(&RestartModel::below_before);
  // About one a kill; a busy machine under a sanitizer had 17 for 20.
  EXPECT_GT(load.sum(&RestartModel::fetched), static_cast<std::uint64_t>(kills) / 4);
  EXPECT_GT(stored * ChunkPages::kGroup.slot_bytes(), kills >= 100 ? 3 * kDiskBytes : 0);
  const std::uint64_t back = load.sum(&RestartModel::below_back),
                      gone = load.sum(&RestartModel::below_gone);
  EXPECT_GE(static_cast<double>(back + gone), 0.95 * static_cast<double>(before))
      << "a present chunk can be loaded";
  std::printf(
      "of %llu looked for that were only on the disk %llu were back, and %llu had left it; %llu "
      "fetched in all, %llu stored, "
      "%llu drops; the disk took %.1f MiB of %.1f at most\n",
      static_cast<unsigned long long>(before), static_cast<unsigned long long>(back),
      static_cast<unsigned long long>(gone),
      static_cast<unsigned long long>(load.sum(&RestartModel::fetched)),
      static_cast<unsigned long long>(stored),
      static_cast<unsigned long long>(load.sum(&RestartModel::drops)),
      static_cast<double>(most) / (1 << 20), static_cast<double>(kDiskBytes) / (1 << 20));
  EXPECT_EQ(world.leaks(), "");
}

std::uint64_t epoch_of(Engine& engine) {
  const client::State state = engine.client().state();
  return state.attached ? state.epoch : 0;
}

// A confirmed drop of the engine lasts, also if larderd dies in the very next moment. Other drops
// keep the disk busy: one waits until earlier ones are noted.
// covers F-139
TEST(KillLarderdAfterADrop, DroppedChunksAreNotPromotedFromDisk) {
  constexpr std::uint64_t kChunks = 8;
  const DiskFolder disk;
  World world(kTinyArena, LARDERD_PATH, disk.lines(34, "through"));
  const pid_t larderd = world.larderd().process().pid();
  Tally& tally = Tally::make();
  ChildProcess process([&] {
    Engine engine(world.socket()), other(world.socket(), 1);
    if (!engine.attached() || !other.attached() || !store_at_last(engine, keys(1, kChunks), 7))
      return 10;
    tally.stored = kChunks;
    while (!tally.stop) ::usleep(1000);
    const std::uint64_t before = epoch_of(engine);
    other.drop();
    ::usleep(300);
    engine.drop();
    if (!engine.client().wait_namespace(0, 10'000).ok()) return 11;
    ::kill(larderd, SIGKILL);
    if (!eventually([&] { return epoch_of(engine) != 0 && epoch_of(engine) != before; }, 20'000))
      return 12;
    for (const std::uint64_t key : keys(1, kChunks))
      if (engine.reachable(key) || engine.fetch(key, 500).whole) return 4;
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return tally.stored == kChunks; }));
  ASSERT_TRUE(eventually([&] {
    return world.larderd().status_number({"disk", "chunks"}) == std::int64_t{kChunks};
  }));
  tally.stop = true;
  ASSERT_EQ(world.larderd().process().wait(20'000), 128 + SIGKILL);
  world.restart();
  EXPECT_EQ(process.wait(30'000), 0) << "4: it has risen";
}

// ---- 10 GiB ----

std::int64_t now_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // the same in all processes
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
}

std::uint64_t available_bytes() {
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) != 0) return 0;
  std::uint64_t kib = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:")) kib = std::stoull(line.substr(line.find(' ')));
  return std::min<std::uint64_t>(kib << 10, std::uint64_t{shm.f_bavail} * shm.f_frsize);
}

// The record of the engine of the test below.
struct Reattached {
  std::atomic<std::uint64_t> stored{0}, rounds{0}, right{0};
  std::atomic<std::int64_t> first_hit_us{0};
  static Reattached& make() {
    void* memory = ::mmap(nullptr, sizeof(Reattached), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *new (memory) Reattached();
  }
};

constexpr std::uint64_t kContent = 7;

std::vector<std::vector<std::uint64_t>> pieces_of(std::uint64_t chunks) {
  std::vector<std::vector<std::uint64_t>> pieces;
  for (std::uint64_t key = 1; key <= chunks; key += Engine::kChunks)
    pieces.push_back(keys(key, std::min<std::uint64_t>(Engine::kChunks, chunks + 1 - key)));
  return pieces;
}

// Stores the given number of chunks; after each restart the engine hits one, and then looks at
// every one.
int hit_again(Engine& engine, std::uint64_t chunks, std::uint64_t restarts, Reattached& told) {
  const std::vector<std::vector<std::uint64_t>> pieces = pieces_of(chunks);
  for (const auto& piece : pieces) engine.store(piece, kContent, 1000);
  for (const auto& piece : pieces)
    if (!engine.present(piece.back()) && !store_at_last(engine, piece, kContent)) return 10;
  std::uint64_t before = epoch_of(engine);
  told.stored = chunks;
  for (std::uint64_t round = 1; round <= restarts; ++round) {
    while (epoch_of(engine) == 0 || epoch_of(engine) == before) ::usleep(100);
    if (engine.load({1}) != Code::kOk) return 11;
    told.first_hit_us = now_us();
    before = epoch_of(engine);
    std::uint64_t right = 0;
    for (const auto& piece : pieces) {
      if (engine.load(piece) != Code::kOk) continue;
      if (!engine.holds_bytes_of(piece, kContent)) return 3;
      right += piece.size();
    }
    told.right = right;
    told.rounds = round;
  }
  return 0;
}

// 10 GiB in the whole suite, as far as the machine has the memory; else 64 MiB.
TEST(Reattach, TenGibReattachWithinASecond) {
  const std::uint64_t mib = whole() ? 10 << 10 : 64;
  if (whole() && available_bytes() < (mib + 1024) << 20)
    GTEST_SKIP() << "11 GiB of memory are needed, " << (available_bytes() >> 20)
                 << " MiB are available";
  test::LarderdProcess larderd(std::to_string(mib) + "MiB", "error");
  ASSERT_TRUE(eventually(
      [&] {
        return larderd.status_number({"memory", "touched_bytes"}) ==
               larderd.status_number({"memory", "capacity_bytes"});
      },
      180'000));
  constexpr std::uint64_t kRestarts = 2;
  const std::uint64_t chunks = (mib << 20) / 10 * 9 / ChunkPages::kGroup.slot_bytes();
  Reattached& told = Reattached::make();
  ChildProcess process([&] {
    Engine engine(larderd.socket());
    return engine.attached() ? hit_again(engine, chunks, kRestarts, told) : 1;
  });
  ASSERT_TRUE(eventually([&] { return told.stored == chunks || !process.running(); }, 300'000))
      << "storing takes too long";
  for (std::uint64_t round = 1; round <= kRestarts; ++round) {
    ASSERT_TRUE(process.running())
        << process.wait(0) << ": 3 is a wrong byte, 10 the memory could not be filled, 11 no hit";
    const std::int64_t killed_us = now_us();
    std::int64_t dead_us = killed_us;
    larderd.kill_and_restart(SIGKILL, [&] { dead_us = now_us(); });
    ASSERT_TRUE(eventually([&] { return told.rounds == round || !process.running(); }, 300'000));
    const double ms = static_cast<double>(told.first_hit_us - killed_us) / 1000;
    std::printf(
        "%llu MiB, %llu chunks: SIGKILL to the first hit %.0f ms, of these %.0f until the killed "
        "one was gone, %llu chunks back "
        "and right\n",
        static_cast<unsigned long long>(mib), static_cast<unsigned long long>(chunks), ms,
        static_cast<double>(dead_us - killed_us) / 1000,
        static_cast<unsigned long long>(told.right.load()));
    EXPECT_LE(ms, 1000);
    EXPECT_GE(static_cast<double>(told.right), 0.999 * static_cast<double>(chunks));
  }
  EXPECT_EQ(process.wait(20'000), 0);
}

}  // namespace
}  // namespace larder::crash
