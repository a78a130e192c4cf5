// What the pages name must exist: a table of faults whose tests are gone proves nothing.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "tests/unit/house/rules.h"
#include "tests/unit/text_file.h"

namespace larder::house {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = REPOSITORY_ROOT;

// All tests, one after the other.
std::string read_tests() {
  std::string all;
  for (const char* folder : {"tests", "e2e"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / folder))
      if (entry.path().extension() == ".cc" || entry.path().extension() == ".py") all += test::text_of(entry.path());
  return all;
}

// `test_name` of Python; `Suite.Case` and `Suite.*` of C++, in a plain test, a fixture's or a parameterised one.
bool defined(const std::string& tests, const std::string& name) {
  if (name.starts_with("test_")) return tests.find("def " + name + "(") != std::string::npos;
  const std::size_t dot = name.find('.');
  const std::string start = "(" + name.substr(0, dot) + ", ";
  const std::string test_case = name.substr(dot + 1);
  return tests.find(test_case == "*" ? start : start + test_case + ")") != std::string::npos;
}

TEST(DocsTest, EveryTestOfTheTableOfFailuresExists) {
  const std::string tests = read_tests();
  const std::string page = test::text_of(kRoot / "docs/reference/failures.md");
  const std::regex names("`(test_[a-z0-9_]+|[A-Z][A-Za-z]+\\.[A-Z*][A-Za-z]*)`");
  int found = 0;
  for (auto at = std::sregex_iterator(page.begin(), page.end(), names); at != std::sregex_iterator(); ++at) {
    const std::string name = (*at)[1];
    if (name == "test_name" || name == "Suite.Case") continue;  // how the page says they are named
    EXPECT_TRUE(defined(tests, name)) << "docs/reference/failures.md names " << name;
    ++found;
  }
  EXPECT_GT(found, 30);
}

TEST(DocsTest, TheCheckBites) {
  const std::string tests = "TEST_F(StartTest, Works) {\ndef test_it(world):\n";
  EXPECT_TRUE(defined(tests, "StartTest.Works") && defined(tests, "StartTest.*") && defined(tests, "test_it"));
  EXPECT_FALSE(defined(tests, "StartTest.Work") || defined(tests, "Test.*") || defined(tests, "test_i"));
}

TEST(DocsTest, TheMapShowsEveryRoom) {
  const std::string map = test::text_of(kRoot / "docs/contributing/code-map.md");
  for (const Room& room : rooms()) {
    const std::string path(room.path.substr(0, room.path.size() - 1));
    if (!fs::exists(kRoot / path / "README.md") || path.starts_with("tests/")) continue;
    EXPECT_NE(map.find("](../../" + path + ")"), std::string::npos) << "the code map does not lead to " << path;
  }
}

// The version that the chart names, and what comes after it.
TEST(DocsTest, TheChangelogHasASectionOfTheVersion) {
  EXPECT_NE(test::text_of(kRoot / "README.md").find("](CHANGELOG.md)"), std::string::npos);
  const std::string chart = test::text_of(kRoot / "charts/larder/Chart.yaml"), changes = test::text_of(kRoot / "CHANGELOG.md");
  std::smatch version;
  ASSERT_TRUE(std::regex_search(chart, version, std::regex("\nversion: ([0-9.]+)\n")));
  for (const std::string& section : {std::string("Unreleased"), version[1].str()})
    EXPECT_NE(changes.find("\n## [" + section + "]"), std::string::npos) << "CHANGELOG.md has no section " << section;
}

}  // namespace
}  // namespace larder::house
