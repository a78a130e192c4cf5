#include "sidecar/ctl/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/http/status_json.h"
#include "tests/unit/ctl/sample_stats.h"

namespace larder::ctl {
namespace {

using testing::HasSubstr;

void expect_report(const std::string& name, const stats::Stats& stats, bool healthy = true, bool ready = true) {
  const Result<std::string> report = status_report(http::status_json(stats, healthy, ready));
  ASSERT_TRUE(report.ok()) << report.status().text();
  expect_golden(name, *report);
}

TEST(ReportTest, Idle) {
  expect_report("idle", idle_stats());
}
TEST(ReportTest, Busy) {
  expect_report("busy", busy_stats());
}
TEST(ReportTest, Unhealthy) {
  expect_report("unhealthy", busy_stats(), false, false);
}

TEST(ReportTest, HostileNamesAreHarmless) {
  stats::Stats stats = busy_stats();
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
