// The pages: every link leads somewhere, and the changelog knows the version.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "tests/unit/house/root.h"
#include "tests/unit/text_file.h"

namespace larder::house {
namespace {

namespace fs = std::filesystem;

// The chart's version, and the versions after it.
TEST(DocsTest, TheChangelogHasASectionOfTheVersion) {
  EXPECT_NE(test::text_of(kRoot / "README.md").find("](CHANGELOG.md)"), std::string::npos);
  const std::string chart = test::text_of(kRoot / "charts/larder/Chart.yaml"),
                    changes = test::text_of(kRoot / "CHANGELOG.md");
  std::smatch version;
  ASSERT_TRUE(std::regex_search(chart, version, std::regex("\nversion: ([0-9.]+)\n")));
  for (const std::string& section : {std::string("Unreleased"), version[1].str()})
    EXPECT_NE(changes.find("\n## [" + section + "]"), std::string::npos)
        << "CHANGELOG.md has no section " << section;
}

}  // namespace
}  // namespace larder::house
