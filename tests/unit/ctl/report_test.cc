#include "sidecar/ctl/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "sidecar/http/status_json.h"

namespace larder::ctl {
namespace {

using testing::HasSubstr;

// Golden files are the screens that users see. After a wanted change: LARDER_TEST_WRITE_GOLDEN=1 and read the difference.
void expect_golden(const std::string& name, const stats::Stats& stats, bool healthy = true, bool ready = true) {
  const Result<std::string> report = status_report(http::status_json(stats, healthy, ready));
  ASSERT_TRUE(report.ok()) << report.status().text();
  const std::string file = std::string(GOLDEN_FOLDER) + "/" + name + ".txt";
  if (std::getenv("LARDER_TEST_WRITE_GOLDEN") != nullptr) std::ofstream(file) << *report;
  std::stringstream golden;
  golden << std::ifstream(file).rdbuf();
  EXPECT_EQ(*report, golden.str());
}

stats::Stats idle() {
  stats::Stats stats;
  stats.version = "0.1.0";
  stats.pool = "larder";
  stats.uptime_ms = 400;
  stats.arena_bytes = 5ULL << 30;
  stats.touched_bytes = 2ULL << 30;
  stats.arena_page_bytes = 4096;
  return stats;
}

stats::Stats busy() {
  stats::Stats stats = idle();
  stats.uptime_ms = 8'040'000;
  stats.touched_bytes = stats.arena_bytes;
  stats.used_bytes = 768ULL << 20;
  stats.slot_bytes = 3154 * 1024;
  stats.slots_committed = 250;
  stats.evicted_capacity = 1234;
  stats.evicted_resized = 7;
  stats.evicted_bad = 1;
  stats.refused_no_space = 3;
  stats.checksum_failures = 1;
  stats.loads_failed = 2;
  stats.sessions_opened = 5;
  stats.models = {{"demo", 2000, 1500, 4'096'000, 3'840'000, 47ULL << 30, 3ULL << 30, 256'000, 1'000'000'000'000},
                  {"a-model-with-a-rather-long-served-name-v2", 1, 0, 512, 0, 0, 0, 0, 0}};
  stats.namespaces = {
      {"0123456789abcdef0123456789abcdef", "demo", std::make_shared<const std::string>("engine: vllm\n"), 250, 768ULL << 20, 2}};
  stats.sessions = {{1, "vllm 0.32.0 scheduler", stats.namespaces[0].id, false, 16, 0},
                    {2, "vllm 0.32.0 worker 0", stats.namespaces[0].id, true, 0, 1}};
  stats.fallbacks = {{"hugepages", "4 KiB pages: 3 of 2560 huge pages are free"}};
  return stats;
}

TEST(ReportTest, Idle) {
  expect_golden("idle", idle());
}
TEST(ReportTest, Busy) {
  expect_golden("busy", busy());
}
TEST(ReportTest, Unhealthy) {
  expect_golden("unhealthy", busy(), false, false);
}

TEST(ReportTest, HostileNamesAreHarmless) {
  stats::Stats stats = busy();
  stats.sessions[0].engine = "x\x1b]0;owned\x07";
  stats.models[0].model = "m\xff\n";
  const Result<std::string> report = status_report(http::status_json(stats, true, true));
  ASSERT_TRUE(report.ok()) << report.status().text();
  EXPECT_EQ(report->find('\x1b'), std::string::npos);
  EXPECT_EQ(report->find('\xff'), std::string::npos);
}

TEST(ReportTest, AnswersThatAreNotUnderstood) {
  for (const char* body : {"", "not json", "{}", "[]", "{\"version\": 1}"})
    EXPECT_THAT(status_report(body).status().text(), HasSubstr("is not understood")) << body;
  EXPECT_THAT(dropped_report("{}").status().text(), HasSubstr("is not understood"));
}

TEST(ReportTest, Verbs) {
  EXPECT_EQ(*dropped_report(http::dropped_json(1)), "dropped 1 chunk\n");
  EXPECT_EQ(*dropped_report(http::dropped_json(1200)), "dropped 1,200 chunks\n");
  EXPECT_EQ(error_of(http::error_json("not found: no namespace beef")), "not found: no namespace beef");
  EXPECT_EQ(error_of("plain\nsecond line"), "plain");
}

}  // namespace
}  // namespace larder::ctl
