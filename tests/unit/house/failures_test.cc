// docs/reference/failures.md and the tests name each other: a row has a test or the reason for a
// missing test, and a `covers` comment has its row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/house/root.h"
#include "tests/unit/text_file.h"

namespace larder::house {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Ids on both sides, and the faults found on the way: each a line of text.
struct Coverage {
  std::set<std::string> rows, untested, covered;
  std::vector<std::string> faults;
};

// Rows are `| F-001 | ...`, reasons `- F-001: not tested: ...`.
void read_page(const std::string& page, Coverage& into) {
  const std::regex row("\\| (F-[0-9]{3,}) \\| .*"), reason("- (F-[0-9]{3,}): not tested: \\S.*");
  for (const std::string& line : lines_of(page)) {
    std::smatch id;
    if (line.starts_with("| id |") || line.starts_with("|--")) continue;
    if (line.starts_with("|") && !std::regex_match(line, id, row))
      into.faults.push_back("a row without an id: " + line);
    if (line.starts_with("- F-") && !std::regex_match(line, id, reason))
      into.faults.push_back("no reason: " + line);
    if (id.empty()) continue;
    if (!(line.starts_with("|") ? into.rows : into.untested).insert(id[1]).second)
      into.faults.push_back("stands twice: " + id[1].str());
  }
}

// Comments `covers F-001, F-002`, each on the line before a test. `name` is the file's, for the
// faults.
void read_comments(const std::string& name, const std::string& text, Coverage& into) {
  const std::regex like_one("covers\\s*:?\\s*F-?[0-9]", std::regex::icase), id("F-[0-9]+");
  const std::regex comment("\\s*(//|#) covers F-[0-9]{3,}(, F-[0-9]{3,})*");
  const std::regex test("\\s*((TYPED_)?TEST(_F|_P)?\\(|(async )?def test_|int main\\().*");
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const std::string& line = lines[at];
    if (line.find("F-") == std::string::npos && line.find("f-") == std::string::npos) continue;
    if (!std::regex_search(line, like_one)) continue;
    if (!std::regex_match(line, comment) || at + 1 == lines.size() ||
        !std::regex_match(lines[at + 1], test))
      into.faults.push_back(name + ":" + std::to_string(at + 1) +
                            ": not `covers F-001, F-002` on the line before a test");
    for (auto next = std::sregex_iterator(line.begin(), line.end(), id);
         next != std::sregex_iterator(); ++next)
      into.covered.insert(next->str());
  }
}

std::vector<std::string> faults_of(const Coverage& both) {
  std::vector<std::string> faults = both.faults;
  for (const std::string& id : both.rows)
    if (!both.covered.contains(id) && !both.untested.contains(id))
      faults.push_back(id + " has no test and no reason");
  for (const std::string& id : both.untested)
    if (!both.rows.contains(id) || both.covered.contains(id))
      faults.push_back(id + " is no row, or has a test all the same");
  for (const std::string& id : both.covered)
    if (!both.rows.contains(id)) faults.push_back(id + " is covered by a test and is no row");
  return faults;
}

std::vector<std::string> faults_of(const std::string& page, const std::string& source) {
  Coverage both;
  read_page(page, both);
  read_comments("a_test.cc", source, both);
  return faults_of(both);
}

TEST(FailuresPageTest, EveryRowHasATestAndEveryCommentHasARow) {
  Coverage both;
  read_page(test::text_of(kRoot / "docs/reference/failures.md"), both);
  EXPECT_GT(both.rows.size(), 200U);
  for (const char* folder : {"tests", "e2e"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const fs::path& path = entry.path();
      // has faulty comments of its own
      if (path == kRoot / "tests/unit/house/failures_test.cc") continue;
      if (path.extension() == ".cc" || path.extension() == ".py")
        read_comments(path.string(), test::text_of(path), both);
    }
  }
  EXPECT_THAT(faults_of(both), IsEmpty());
}

TEST(FailuresPageTest, CheckFindsEveryKindOfMistake) {
  const std::string page =
      "| id | fault |\n|---|---|\n| F-001 | a |\n| F-002 | b |\n\n- F-002: not tested: rare\n";
  const std::string source = "// covers F-001\nTEST(A, B) {\n";
  EXPECT_THAT(faults_of(page, source), IsEmpty());
  EXPECT_THAT(faults_of(page, "    # covers F-001\n    def test_it(world):\n"), IsEmpty());
  EXPECT_THAT(faults_of(page, ""), ElementsAre("F-001 has no test and no reason"));
  EXPECT_THAT(faults_of(page, "// covers F-001, F-003\nTEST_F(A, B) {\n"),
              ElementsAre("F-003 is covered by a test and is no row"));
  EXPECT_THAT(faults_of(page, "// covers F-001, F-002\nTEST_P(A, B) {\n").size(), 1U);
  EXPECT_THAT(faults_of(page + "- F-009: not tested: gone\n", source).size(), 1U);
  EXPECT_THAT(faults_of(page + "- F-001: rare\n", source).size(), 1U);
  EXPECT_THAT(faults_of(page + "| F-001 | again |\n", source), ElementsAre("stands twice: F-001"));
  EXPECT_THAT(faults_of(page + "| c | d |\n", source),
              ElementsAre("a row without an id: | c | d |"));
}

TEST(FailuresPageTest, MalformedCommentIsReported) {
  for (const char* source :
       {"// covers F-001\n\nTEST(A, B) {\n", "// covers F-001", "// Covers: F-001\nTEST(A, B) {\n",
        "// covers F-001 F-002\nTEST(A, B) {\n", "int x;  // covers F-001\nTEST(A, B) {\n"}) {
    Coverage both;
    read_comments("a_test.cc", source, both);
    EXPECT_THAT(both.faults,
                ElementsAre("a_test.cc:1: not `covers F-001, F-002` on the line before a test"))
        << source;
  }
}

}  // namespace
}  // namespace larder::house
