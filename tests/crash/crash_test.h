// CrashTest: a real larderd of about 28 slots, and engines in processes of their own that stop at
// named points.
//
// A test has one thread, because it forks.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/base/log.h"
#include "sidecar/config/loader.h"
#include "sidecar/loop/sidecar.h"
#include "tests/crash/engine.h"
#include "tests/crash/point_page.h"
#include "tests/crash/victim.h"
#include "tests/crash/world.h"

namespace larder::crash {

using protocol::SlotState;
using test::ChildProcess;
using test::eventually;

inline constexpr char kTinyArena[] = "1MiB";

inline std::vector<std::uint64_t> keys(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Until the parent kills it.
inline int sleep_for_ever() {
  for (;;) ::pause();
}

// Repeats the store until all chunks are present: larderd may not have touched its memory yet, or
// the session may not be attached yet.
inline bool store_at_last(Engine& engine, const std::vector<std::uint64_t>& wanted,
                          std::uint64_t generation) {
  return eventually([&] {
    engine.store(wanted, generation, 1000);
    for (const std::uint64_t key : wanted)
      if (!eventually([&] { return engine.present(key); }, 200)) return false;
    return true;
  });
}

class CrashTest : public testing::Test {
 protected:
  ~CrashTest() override { tally_.stop = true; }

  // A process with an attached engine; exit status 1: the engine could not attach.
  template <typename Work>
  std::unique_ptr<ChildProcess> engine(const Work& work) {
    return std::make_unique<ChildProcess>([&] {
      announce_in(&page_);
      Engine engine(world_.socket());
      return engine.attached() ? work(engine) : 1;
    });
  }
  // Runs a larderd over the world's files in this process, with its points announced. Returns the
  // exit status.
  int serve() {
    announce_in(&page_);
    base::set_log_level(base::LogLevel::kError);
    const Result<config::Config> config =
        config::load(std::filesystem::path(world_.socket()).parent_path() / "larder.yaml", {});
    const base::MonotonicClock clock;
    Result<std::unique_ptr<loop::Sidecar>> sidecar = loop::Sidecar::start(*config, clock);
    return sidecar.ok() && (*sidecar)->run().ok() ? 0 : 1;
  }
  // Stores many other chunks, far more than fit, so larderd hands on every slot that it may hand
  // on.
  void fill_with_others() {
    const auto others = engine([](Engine& engine) {
      for (std::uint64_t key = 100; key < 100 + 4 * Engine::kChunks; ++key)
        engine.store({key}, key, 1000);
      return 0;
    });
    EXPECT_EQ(others->wait(20'000), 0);
  }
  // The number of ten other chunks that found room.
  std::uint64_t stored_by_others() {
    Tally& counted = Tally::make();
    const auto others = engine([&](Engine& engine) {
      for (std::uint64_t key = 100; key < 110; ++key)
        counted.stored += engine.store({key}, key, 100);
      return 0;
    });
    EXPECT_EQ(others->wait(20'000), 0);
    return counted.stored;
  }
  bool attached(std::int64_t engines) {
    return eventually([&] { return status({"sessions", "attached"}) == engines; });
  }
  std::uint64_t all_visible_verify() {
    Tally& tally = Tally::make();
    ChildProcess checker([&] { return check_all(world_.socket(), tally); });
    EXPECT_EQ(checker.wait(30'000), 0)
        << "3 is a wrong byte, 4 a visible chunk that could not be loaded";
    return tally.loaded;
  }
  std::int64_t status(const std::vector<std::string>& path) {
    return world_.larderd().status_number(path);
  }

  World world_{kTinyArena};
  const std::uint64_t slots_ = world_.slots();  // fewer than Engine::kChunks
  PointPage& page_ = PointPage::make();
  Tally& tally_ = Tally::make();
};

}  // namespace larder::crash
