// A real process, killed by SIGKILL during its writes, and its directory opened again: DISK_KILLS
// times, else 20, or 1,000 with CRASH_SUITE=whole.
//
// No wrong byte is found, the size stays, and all lately acknowledged chunks, which no region's
// opening can have taken, are there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "sidecar/tiers/disk/disk_tier.h"
#include "tests/conformance/tier_chunks.h"

namespace larder::disk {
namespace {

constexpr std::uint64_t kSizeBytes = 34 << 20;
constexpr std::uint64_t kRegionBytes = 4 << 20;
constexpr std::uint64_t kNumbers = 200;

class DiskKillTest : public testing::Test {
 protected:
  DiskKillTest() {
    char name[] = "/tmp/larder-kill-XXXXXX";
    options_.path = ::mkdtemp(name);
    options_.size_bytes = kSizeBytes;
    options_.region_bytes = kRegionBytes;
  }
  ~DiskKillTest() override { std::filesystem::remove_all(options_.path); }

  // The acknowledged chunks, in order: number and generation.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> write_and_kill(std::uint64_t seed,
                                                                      int after_ms) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], 1);
      ::close(ends[0]);
      ::execl(DISK_WRITER_PATH, "disk_writer", options_.path.c_str(),
              std::to_string(kSizeBytes).c_str(), std::to_string(kRegionBytes).c_str(),
              std::to_string(seed).c_str(), nullptr);
      ::_exit(3);
    }
    ::close(ends[1]);
    std::FILE* lines = ::fdopen(ends[0], "r");
    char line[64] = "";
    EXPECT_NE(std::fgets(line, sizeof(line), lines), nullptr);
    EXPECT_STREQ(line, "open\n");
    std::jthread killer([child, after_ms] {
      std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
      ::kill(child, SIGKILL);
    });
    std::vector<std::pair<std::uint64_t, std::uint64_t>> acknowledged;
    while (std::fgets(line, sizeof(line), lines) != nullptr) {
      unsigned long long number = 0, generation = 0;
      if (std::sscanf(line, "%llu %llu\n", &number, &generation) == 2)
        acknowledged.emplace_back(number, generation);
    }
    std::fclose(lines);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    return acknowledged;
  }

  DiskOptions options_;
  Env env_;
  base::MonotonicClock clock_;
};

// covers F-137
TEST_F(DiskKillTest, KillsCauseNoWrongBytesAndKeepTheSize) {
  const char *told = std::getenv("DISK_KILLS"), *suite = std::getenv("CRASH_SUITE");
  const bool whole = suite != nullptr && std::string_view(suite) == "whole";
  const int kills = told != nullptr ? std::atoi(told) : whole ? 1000 : 20;
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uint64_t acknowledged = 0, recent = 0, recent_found = 0, found = 0;
  for (int kill = 0; kill < kills; ++kill) {
    const auto told_ok = write_and_kill(random(), static_cast<int>(random() % 60));
    acknowledged += told_ok.size();
    struct stat info {};
    ASSERT_EQ(::stat((options_.path + "/larder/chunks").c_str(), &info), 0);
    ASSERT_LE(static_cast<std::uint64_t>(info.st_blocks) * 512, kSizeBytes);
    Result<std::unique_ptr<tiers::Tier>> tier = open_disk_tier(env_, clock_, options_);
    ASSERT_TRUE(tier.ok()) << tier.status().to_string();
    tiers::testing_support::Loop loop(**tier, clock_);
    for (std::uint64_t number = 0; number < kNumbers; ++number) {
      const Status status = loop.get(number);
      ASSERT_TRUE(status.ok() || status.code() == Code::kNotFound)
          << "chunk " << number << " after kill " << kill << ": " << status.to_string();
      found += status.ok() ? 1 : 0;
    }
    // Of the chunks of the last third of the space, no chunk can have been evicted.
    std::map<std::uint64_t, std::uint64_t> last;
    for (std::size_t i = told_ok.size() > 16 ? told_ok.size() - 16 : 0; i < told_ok.size(); ++i)
      last[told_ok[i].first] = told_ok[i].second;
    for (const auto& [number, generation] : last) {
      const std::optional<tiers::ChunkFacts> facts =
          (*tier)->probe(tiers::testing_support::key_of(number));
      ++recent;
      recent_found += facts && facts->generation >= generation ? 1 : 0;
    }
    ASSERT_TRUE((*tier)->close(10'000));
  }
  std::printf(
      "%d kills, seed %llu: %llu puts acknowledged, %llu chunks found and right, %llu of the %llu "
      "last acknowledged there\n",
      kills, static_cast<unsigned long long>(seed), static_cast<unsigned long long>(acknowledged),
      static_cast<unsigned long long>(found), static_cast<unsigned long long>(recent_found),
      static_cast<unsigned long long>(recent));
  EXPECT_GT(acknowledged, 0U);
  EXPECT_EQ(recent_found, recent);
}

}  // namespace
}  // namespace larder::disk
