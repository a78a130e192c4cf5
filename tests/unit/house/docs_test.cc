// The pages: every link leads somewhere, and the changelog knows the version.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "tests/unit/text_file.h"

namespace larder::house {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = REPOSITORY_ROOT;

// The version that the chart names, and what comes after it.
TEST(DocsTest, TheChangelogHasASectionOfTheVersion) {
  EXPECT_NE(test::text_of(kRoot / "README.md").find("](CHANGELOG.md)"), std::string::npos);
  const std::string chart = test::text_of(kRoot / "charts/larder/Chart.yaml"), changes = test::text_of(kRoot / "CHANGELOG.md");
  std::smatch version;
  ASSERT_TRUE(std::regex_search(chart, version, std::regex("\nversion: ([0-9.]+)\n")));
  for (const std::string& section : {std::string("Unreleased"), version[1].str()})
    EXPECT_NE(changes.find("\n## [" + section + "]"), std::string::npos) << "CHANGELOG.md has no section " << section;
}

// A link in a page to a file of the tree.
TEST(DocsTest, EveryLinkOfAPageLeadsSomewhere) {
  const std::regex links("\\]\\(([^)#:]+)\\)");
  for (const fs::path& folder : {kRoot, kRoot / "docs"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".md") continue;
      const std::string page = test::text_of(entry.path());
      for (auto at = std::sregex_iterator(page.begin(), page.end(), links); at != std::sregex_iterator(); ++at)
        EXPECT_TRUE(fs::exists(folder / (*at)[1].str())) << entry.path() << " links to " << (*at)[1];
    }
  }
}

}  // namespace
}  // namespace larder::house
