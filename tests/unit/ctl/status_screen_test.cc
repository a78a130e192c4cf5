#include "sidecar/ctl/status_screen.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sidecar/pages/status_json.h"
#include "tests/unit/ctl/sample_stats.h"

namespace larder::ctl {
namespace {

TEST(StatusScreenTest, Idle) {
  expect_golden("idle", status_screen(snapshot_of(idle_stats())));
}
TEST(StatusScreenTest, Busy) {
  expect_golden("busy", status_screen(snapshot_of(busy_stats())));
}
TEST(StatusScreenTest, WithDisk) {
  expect_golden("disk", status_screen(snapshot_of(stats_with_disk())));
}
TEST(StatusScreenTest, WithBackend) {
  expect_golden("backend", status_screen(snapshot_with_backend()));
  const std::string degraded = status_screen(snapshot_with_backend("the server is full"));
  EXPECT_NE(degraded.find(
                "\nBackend         rediss://cache.example:6379, DEGRADED: the server is full\n"),
            std::string::npos);
}
TEST(StatusScreenTest, Unhealthy) {
  expect_golden("unhealthy", status_screen(snapshot_of(busy_stats(), false, false)));
}

TEST(StatusScreenTest, HostileNamesAreEscaped) {
  stats::Stats stats = busy_stats();
  stats.sessions[0].engine = "x\x1b]0;owned\x07";
  stats.models[0].model = "m\xff\n";
  const std::string screen = status_screen(snapshot_of(stats));
  EXPECT_EQ(screen.find('\x1b'), std::string::npos);
  EXPECT_EQ(screen.find('\xff'), std::string::npos);
}

// The answering program may be no larderd.
TEST(StatusScreenTest, MalformedAnswerIsQuotedEscaped) {
  const auto refused = read_snapshot(
      "{\"trust\":\x7f\xc2\x9b"
      "31m");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().text().find_first_of("\x7f\x9b"), std::string::npos)
      << refused.status().text();
}

TEST(StatusScreenTest, CountsMustBeWholeNumbers) {
  const std::string good = pages::status_json(busy_stats(), true, true);
  ASSERT_TRUE(read_snapshot(good).ok());
  for (const char* wrong : {"1e300", "-1", "0.5", "\"1\"", "null"}) {
    nlohmann::json answer = nlohmann::json::parse(good);
    answer["memory"]["used_bytes"] = nlohmann::json::parse(wrong);
    EXPECT_FALSE(read_snapshot(answer.dump()).ok()) << wrong;
    answer = nlohmann::json::parse(good);
    answer["models"][0]["requests_short"] = nlohmann::json::parse(wrong);
    EXPECT_FALSE(read_snapshot(answer.dump()).ok()) << wrong;
  }
}

}  // namespace
}  // namespace larder::ctl
