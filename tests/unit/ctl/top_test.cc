#include "sidecar/ctl/top.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/ctl/sample_stats.h"

namespace larder::ctl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Two seconds after busy_stats().
stats::Stats later_stats() {
  stats::Stats stats = busy_stats();
  stats.uptime_ms += 2000;
  stats.models[0].requests += 25;
  stats.models[0].requests_hit += 20;
  stats.models[0].tokens_asked += 51'200;
  stats.models[0].tokens_hit += 40'960;
  stats.models[0].bytes_loaded += 3ULL << 30;
  stats.models[1].bytes_stored += 5ULL << 20;
  stats.models[1].tokens_asked += 512;
  stats.evicted_capacity += 3;
  stats.evicted_dropped += 4;
  return stats;
}

TEST(TopTest, FirstScreenHasNoRates) {
  expect_golden("top_first", top_screen(snapshot_of(busy_stats()), std::nullopt));
}

TEST(TopTest, RatesUseTheClockOfLarderd) {
  expect_golden("top_later", top_screen(snapshot_of(later_stats()), snapshot_of(busy_stats())));
}

TEST(TopTest, DiskLineIsShownWithADiskTier) {
  const std::string screen = top_screen(snapshot_of(stats_with_disk()), std::nullopt);
  EXPECT_THAT(screen, HasSubstr("disk            [########......................] 25.0 GiB of "
                                "100.0 GiB (25.0%), 8,333 chunks, DEGRADED: writes fail"));
  EXPECT_THAT(top_screen(snapshot_of(busy_stats()), std::nullopt), Not(HasSubstr("disk")));
}

TEST(TopTest, BackendLineIsShownWithABackend) {
  EXPECT_THAT(top_screen(snapshot_with_backend("the server is full"), std::nullopt),
              HasSubstr("\nbackend         rediss://cache.example:6379, 6.0 GiB written, 1.0 GiB "
                        "brought up, DEGRADED: the server is full\n"));
  EXPECT_THAT(top_screen(snapshot_of(stats_with_disk()), std::nullopt), Not(HasSubstr("backend")));
}

TEST(TopTest, IdleLarderdShowsZeroRates) {
  stats::Stats stats = idle_stats();
  const Snapshot before = snapshot_of(stats);
  stats.uptime_ms += 1000;
  const std::string screen = top_screen(snapshot_of(stats), before);
  EXPECT_THAT(screen, AllOf(HasSubstr("tokens asked    0.0/s"),
                            HasSubstr("loaded          0 bytes/s"), HasSubstr("0 attached")));
}

// The counters of a larderd that was started again begin at zero: their difference is no rate.
TEST(TopTest, ARestartedLarderdHasNoRatesYet) {
  stats::Stats restarted = later_stats();
  restarted.epoch = 9;
  EXPECT_EQ(top_screen(snapshot_of(restarted), snapshot_of(busy_stats())),
            top_screen(snapshot_of(restarted), std::nullopt));
  const Snapshot same = snapshot_of(busy_stats());
  EXPECT_EQ(top_screen(same, same), top_screen(same, std::nullopt));
}

// A forgotten model takes its counts along: no negative rate, and no rate of 2^64.
TEST(TopTest, DecreasingCountsShowNoRate) {
  stats::Stats stats = later_stats();
  stats.models.erase(stats.models.begin());
  EXPECT_THAT(top_screen(snapshot_of(stats), snapshot_of(busy_stats())),
              HasSubstr("tokens found    0.0/s"));
}

TEST(TopTest, WaitingScreenShowsReasonAndLastState) {
  EXPECT_EQ(waiting_screen("nobody there", std::nullopt), "waiting for larderd: nobody there\n");
  EXPECT_EQ(waiting_screen("nobody there", snapshot_of(busy_stats())),
            "waiting for larderd: nobody there\nlast seen: larderd 0.1.0, pool larder, up 2 h 14 "
            "min: ready\n");
}

TEST(TopTest, HostileNamesAreEscaped) {
  stats::Stats stats = busy_stats();
  stats.sessions[0].engine = "x\x1b]0;owned\x07\n";
  stats.models[0].model = "m\x1b[2J";
  EXPECT_THAT(top_screen(snapshot_of(stats), std::nullopt),
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
}

TEST(SnapshotTest, MalformedAnswersAreRefused) {
  for (const char* body : {"", "not json", "{}", "[]", "{\"version\": 1}"})
    EXPECT_THAT(read_snapshot(body).status().text(), HasSubstr("is not understood")) << body;
}

}  // namespace
}  // namespace larder::ctl
