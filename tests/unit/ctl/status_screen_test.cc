#include "sidecar/ctl/status_screen.h"

#include <gtest/gtest.h>

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
  EXPECT_NE(degraded.find("\nBackend         rediss://cache.example:6379, DEGRADED: the server is full\n"), std::string::npos);
}
TEST(StatusScreenTest, Unhealthy) {
  expect_golden("unhealthy", status_screen(snapshot_of(busy_stats(), false, false)));
}

TEST(StatusScreenTest, HostileNamesAreHarmless) {
  stats::Stats stats = busy_stats();
  stats.sessions[0].engine = "x\x1b]0;owned\x07";
  stats.models[0].model = "m\xff\n";
  const std::string screen = status_screen(snapshot_of(stats));
  EXPECT_EQ(screen.find('\x1b'), std::string::npos);
  EXPECT_EQ(screen.find('\xff'), std::string::npos);
}

}  // namespace
}  // namespace larder::ctl
