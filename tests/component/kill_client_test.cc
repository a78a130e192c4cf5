// Engines' clients and larderd die by SIGKILL at any moment: nobody sees a wrong byte, nothing crashes, nothing leaks.
#include <gtest/gtest.h>
#include <signal.h>

#include <deque>
#include <random>

#include "tests/component/larderd_process.h"

namespace larder::test {
namespace {

constexpr char kSmallArena[] = "16MiB";  // 400 keys of 76 KiB do not fit: eviction runs all the time

std::vector<std::string> worker(const LarderdProcess& larderd, std::uint64_t seed, const std::string& seconds) {
  return {WORKER_PATH, larderd.socket(), std::to_string(seed), seconds};
}

TEST(KillClient, ManyKilledWorkersHarmNobodyAndLeaveNothingBehind) {
  LarderdProcess larderd(kSmallArena);
  std::mt19937_64 random(20261121);
  ChildProcess survivor(worker(larderd, 1, "8"));
  std::deque<std::unique_ptr<ChildProcess>> victims;
  for (int round = 0; round < 60; ++round) {
    victims.push_back(std::make_unique<ChildProcess>(worker(larderd, 100 + round, "30")));
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + random() % 100));
    if (victims.size() < 3) continue;
    victims.front()->signal(SIGKILL);
    const int status = victims.front()->wait(5000);
    EXPECT_EQ(status, 128 + SIGKILL) << "a worker ended by itself: 3 is a wrong byte";
    victims.pop_front();
  }
  victims.clear();
  EXPECT_EQ(survivor.wait(30'000), 0);
  EXPECT_TRUE(larderd.process().running());

  EXPECT_TRUE(eventually([&] { return larderd.status_number({"sessions", "attached"}) == 0; }));
  EXPECT_TRUE(eventually([&] { return larderd.status_number({"memory", "slots", "granted"}) == 0; }));
  EXPECT_TRUE(eventually([&] {
    return larderd.status_number({"memory", "slots", "quarantined"}) == 0;
  })) << "the slots of dead writers come back when their locks are gone";
}

TEST(KillLarderd, WorkersGoOnAndUseTheNewOne) {
  LarderdProcess larderd(kSmallArena);
  ChildProcess one(worker(larderd, 1, "6"));
  ChildProcess other(worker(larderd, 2, "6"));
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    larderd.kill_and_restart();
    EXPECT_TRUE(eventually(
        [&] {
          return larderd.status_number({"sessions", "attached"}) == 2;
        },
        2000))
        << "re-attached within 2 s";
  }
  EXPECT_EQ(one.wait(30'000), 0);
  EXPECT_EQ(other.wait(30'000), 0);
}

TEST(StoppedClient, SilenceCostsItsGrantsAndNobodyElse) {
  LarderdProcess larderd(kSmallArena);
  ChildProcess sleeper(worker(larderd, 1, "8"));
  ChildProcess other(worker(larderd, 2, "8"));
  ASSERT_TRUE(eventually([&] { return larderd.status_number({"sessions", "attached"}) == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  sleeper.signal(SIGSTOP);
  EXPECT_TRUE(eventually([&] { return larderd.status_number({"sessions", "heartbeats_missed"}) == 1; }));
  sleeper.signal(SIGCONT);
  EXPECT_EQ(sleeper.wait(30'000), 0);
  EXPECT_EQ(other.wait(30'000), 0);
  EXPECT_TRUE(eventually([&] { return larderd.status_number({"memory", "slots", "quarantined"}) == 0; }));
}

}  // namespace
}  // namespace larder::test
