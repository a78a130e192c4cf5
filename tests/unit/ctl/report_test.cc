#include "sidecar/ctl/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/pages/status_json.h"

namespace larder::ctl {
namespace {

using testing::HasSubstr;

TEST(ReportTest, MalformedAnswersAreRefused) {
  EXPECT_THAT(dropped_report("{}").status().text(), HasSubstr("is not understood"));
  EXPECT_THAT(read_acted("[]").status().text(), HasSubstr("is not understood"));
}

TEST(ReportTest, VerbResultsAreReported) {
  EXPECT_EQ(*dropped_report(pages::dropped_json(1, false)), "dropped 1 chunk\n");
  EXPECT_EQ(*dropped_report(pages::dropped_json(1200, true)),
            "dropped 1,200 chunks, here and in the backend; other larderd of the backend keep "
            "their chunks in memory and on disk: drop the chunks there, too\n");
  EXPECT_EQ(*dropped_report("{\"dropped\": 2}"), "dropped 2 chunks\n")
      << "of a larderd without backends";
  EXPECT_EQ(acted_report("pinned", *read_acted(pages::acted_json({3, 1, 1200}))),
            "pinned 3 of 1,204 hashes, 1 absent, 1,200 refused: too much is pinned\n");
  EXPECT_EQ(error_of(pages::error_json("not found: no namespace beef")),
            "not found: no namespace beef");
  EXPECT_EQ(error_of("plain\nsecond line"), "plain");
}

}  // namespace
}  // namespace larder::ctl
