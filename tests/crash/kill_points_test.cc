// An engine's client killed by SIGKILL from outside at each named point: no resource leaks, no
// engine reads a wrong byte, and the client's slots are free within milliseconds. And larderd
// killed under engines.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "tests/crash/point_page.h"
#include "tests/crash/victim.h"
#include "tests/crash/world.h"

namespace larder::crash {
namespace {

constexpr char kSmallArena[] = "8MiB";  // half of all keys fit: eviction runs all the time

using Times = std::vector<std::chrono::nanoseconds>;
using test::ChildProcess;

// Every visible chunk has the bytes of its key.
void expect_all_verify(World& world) {
  Tally& tally = Tally::make();
  ChildProcess checker([&] { return check_all(world.socket(), tally); });
  EXPECT_EQ(checker.wait(30'000), 0)
      << "3 is a wrong byte, 4 a visible chunk that could not be loaded";
}

class DeathsAtPoints : public testing::Test {
 protected:
  // One victim that lives `life`, killed at its nth passage of the point. Returns the time that
  // larderd needed to take the victim's resources back.
  template <typename Life>
  std::chrono::nanoseconds kill_one(World& world, std::string_view point, std::uint32_t nth,
                                    const Life& life) {
    page_.disarm();
    page_.stop_at(point, nth);
    ChildProcess victim([&] {
      announce_in(&page_);
      return life();
    });
    EXPECT_TRUE(page_.await(point)) << point << " was not reached";
    victim.signal(SIGKILL);
    const auto reclaimed = world.until_empty(5000);
    EXPECT_EQ(victim.kill(), 128 + SIGKILL) << "the victim ended by itself: 3 is a wrong byte";
    return reclaimed;
  }
  // Victims one after another, each killed at the point by `kill`.
  template <typename Kill>
  Times kill_at(std::string_view point, const Kill& kill) {
    Times times;
    for (int i = 0; i < kills_; ++i) times.push_back(kill());
    EXPECT_GE(percentile(times, 0).count(), 0) << point << ": not everything came back within 5 s";
    std::printf("%-22.*s killed %3d times, reached %6llu times, reclaimed: %s\n",
                static_cast<int>(point.size()), point.data(), kills_,
                static_cast<unsigned long long>(page_.reached(point)), percentiles(times).c_str());
    EXPECT_GE(page_.reached(point), static_cast<std::uint64_t>(kills_)) << point;
    return times;
  }

  const int kills_ = whole() ? 100 : 2;  // at each point
  PointPage& page_ = PointPage::make();
  Tally& tally_ = Tally::make();
  std::mt19937_64 random_{20261121};
};

class KillPoints : public DeathsAtPoints {
 protected:
  // By a session: the points up to the first heartbeat, and the points of its end.
  static bool passed_once(std::string_view point) {
    const auto at = std::find(kPoints.begin(), kPoints.end(), point) - kPoints.begin();
    return at < kOncePoints || point == "closing" || point == "session_closed";
  }

  World world_{kSmallArena};
};

// covers F-017
TEST_F(KillPoints, EachKillPointIsReachedAndLeaksNothing) {
  Times all;
  for (const std::string_view point : client_points()) {
    const Times times = kill_at(point, [&] {
      const std::uint32_t nth =
          passed_once(point) ? 1 : 1 + static_cast<std::uint32_t>(random_() % 3);
      const Orders orders{world_.socket(), random_(), point};
      return kill_one(world_, point, nth, [&] { return live(orders, tally_); });
    });
    all.insert(all.end(), times.begin(), times.end());
    if (!whole() && point != client_points().back()) continue;
    expect_all_verify(world_);
    ASSERT_EQ(world_.leaks(), "") << "after " << point;
  }
  std::printf("from kill to everything reclaimed: %s (goal: p99 10 ms)\n",
              percentiles(all).c_str());
  EXPECT_EQ(tally_.wrong, 0U);
}

// Asked about its grants, which larderd does after half a minute, and this larderd at once.
// covers F-017
TEST_F(DeathsAtPoints, EngineDeathDuringGrantInquiryLeaksNothing) {
  World world(kSmallArena, IMPATIENT_LARDERD_PATH);
  for (const std::string_view point : asked_points()) {
    kill_at(point, [&] {
      const Orders orders{world.socket(), random_(), point};
      return kill_one(world, point, 1, [&] { return live_unfinished(orders, page_); });
    });
    ASSERT_EQ(world.leaks(), "") << "after " << point;
  }
}

// covers F-017
TEST_F(KillPoints, DeathAtRandomMomentLeaksNothing) {
  const int kills = whole() ? 10'000 : 300;
  constexpr int kBatch = 1000;
  ChildProcess bystander([&] { return live({world_.socket(), 7, ""}, tally_); });
  std::vector<std::unique_ptr<ChildProcess>> victims;
  for (int i = 0; i < kills; ++i) {
    const Orders orders{world_.socket(), random_(), ""};
    victims.push_back(std::make_unique<ChildProcess>([&] { return live(orders, tally_); }));
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 8000));
    if (victims.size() < 3 && i + 1 < kills && (i + 1) % kBatch != 0) continue;
    const std::size_t which = random_() % victims.size();
    ASSERT_EQ(victims[which]->kill(), 128 + SIGKILL)
        << "the victim ended by itself: 3 is a wrong byte";
    victims.erase(victims.begin() + static_cast<std::ptrdiff_t>(which));
    ASSERT_TRUE(world_.larderd().process().running());
  }
  victims.clear();
  tally_.stop = true;
  EXPECT_EQ(bystander.wait(30'000), 0) << "a living engine was harmed";
  expect_all_verify(world_);
  EXPECT_EQ(world_.leaks(), "");
  EXPECT_EQ(tally_.wrong, 0U);
  EXPECT_GT(tally_.loaded, 100U);
  std::printf("%d kills at random; %llu chunks stored, %llu loads verified meanwhile\n", kills,
              static_cast<unsigned long long>(tally_.stored),
              static_cast<unsigned long long>(tally_.loaded));
}

// covers F-002
TEST(KillLarderd, EnginesContinueWithTheNextLarderd) {
  const int kills = whole() ? 50 : 5;
  World world(kSmallArena);
  Tally& tally = Tally::make();
  std::vector<std::unique_ptr<ChildProcess>> engines;
  for (std::uint64_t seed = 0; seed < 2; ++seed)
    engines.push_back(std::make_unique<ChildProcess>([&] {
      return live({world.socket(), seed, ""}, tally);
    }));
  std::mt19937_64 random(50);
  for (int i = 0; i < kills; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
    const std::uint64_t loaded = tally.loaded;
    world.restart();
    const auto attached = [&] {
      return world.larderd().status_number({"sessions", "attached"}) == 2;
    };
    ASSERT_TRUE(test::eventually(attached, 2000)) << "not attached again within 2 s";
    ASSERT_TRUE(test::eventually([&] { return tally.loaded > loaded + 10; }, 2000))
        << "attached and of no use";
  }
  tally.stop = true;
  for (const auto& engine : engines) EXPECT_EQ(engine->wait(30'000), 0) << "3 is a wrong byte";
  expect_all_verify(world);
  EXPECT_EQ(world.leaks(), "");
}

}  // namespace
}  // namespace larder::crash
