#include "sidecar/ctl/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/http/status_json.h"

namespace larder::ctl {
namespace {

using testing::HasSubstr;

TEST(ReportTest, AnswersThatAreNotUnderstood) {
  EXPECT_THAT(dropped_report("{}").status().text(), HasSubstr("is not understood"));
  Acted acted;
  EXPECT_THAT(add_acted("[]", 1, acted).text(), HasSubstr("is not understood"));
}

TEST(ReportTest, Verbs) {
  EXPECT_EQ(*dropped_report(http::dropped_json(1)), "dropped 1 chunk\n");
  EXPECT_EQ(*dropped_report(http::dropped_json(1200)), "dropped 1,200 chunks\n");
  EXPECT_EQ(error_of(http::error_json("not found: no namespace beef")), "not found: no namespace beef");
  EXPECT_EQ(error_of("plain\nsecond line"), "plain");
}

}  // namespace
}  // namespace larder::ctl
