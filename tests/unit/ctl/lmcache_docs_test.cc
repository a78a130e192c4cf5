// The configurations of LMCache's own documentation (lmcache/README.md), imported; and each key of
// LMCache by docs/guides/from-lmcache.md. Printed output must be a configuration that larderd's
// loader takes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "sidecar/config/loader.h"
#include "sidecar/ctl/lmcache/lmcache.h"
#include "sidecar/ctl/lmcache/lmcache_keys.h"
#include "tests/unit/text_file.h"

namespace larder::ctl {
namespace {

namespace fs = std::filesystem;

// NAME=value lines.
config::Environment read_environment(const fs::path& file) {
  config::Environment environment;
  std::istringstream lines(test::text_of(file));
  for (std::string line; std::getline(lines, line);)
    environment[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  return environment;
}

// By the file's name alone, so that no path stands in the golden files.
Result<std::vector<LmcacheSetting>> read_settings(const fs::path& file) {
  if (file.extension() == ".env")
    return read_lmcache_settings(std::nullopt, read_environment(file));
  fs::current_path(file.parent_path());
  return read_lmcache_settings(file.filename(), {});
}

// The output of larderctl: standard output, or its error.
Result<ImportedLmcache> import_file(const fs::path& file) {
  const Result<std::vector<LmcacheSetting>> settings = read_settings(file);
  return settings.ok() ? import_lmcache(*settings) : settings.status();
}

void expect_that_larderd_takes(const std::string& yaml) {
  const fs::path file =
      fs::path(testing::TempDir()) / ("larder_lmcache." + std::to_string(::getpid()) + ".yaml");
  std::ofstream(file) << yaml;
  const Result<config::Config> config = config::load(file, {});
  EXPECT_TRUE(config.ok()) << config.status().text();
  fs::remove(file);
}

class LmcacheDocsTest : public testing::TestWithParam<std::string> {};

// After a wanted change: LARDER_TEST_WRITE_GOLDEN=1 and read the difference.
TEST_P(LmcacheDocsTest, IsImported) {
  const Result<ImportedLmcache> imported = import_file(fs::path(LMCACHE_FOLDER) / GetParam());
  if (imported.ok()) expect_that_larderd_takes(imported->yaml);
  const std::string text =
      imported.ok() ? imported->yaml : "larderctl: " + imported.status().text() + "\n";
  const fs::path golden = fs::path(GOLDEN_FOLDER) / "lmcache" / (GetParam() + ".txt");
  if (std::getenv("LARDER_TEST_WRITE_GOLDEN") != nullptr) std::ofstream(golden) << text;
  EXPECT_EQ(text, test::text_of(golden));
  EXPECT_EQ(text.find("hunter2"), std::string::npos) << "a password is shown";
}

std::vector<std::string> documented() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(LMCACHE_FOLDER))
    if (entry.path().extension() != ".md") names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Pages, LmcacheDocsTest, testing::ValuesIn(documented()),
                         [](const auto& page) {
                           std::string name = page.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

// docs/guides/from-lmcache.md. tests/python/unit/test_from_lmcache.py runs its other tables.
struct Row {
  std::vector<std::string> theirs;  // the codes of the left cell
  std::string ours;                 // the right cell
};

// The rows of the table below a heading.
std::vector<Row> rows_of(const std::string& heading) {
  static const std::regex kRow("\\| (`.*`) \\| (.*) \\|"), kCode("`([^`]+)`");
  std::istringstream page(test::text_of(LMCACHE_PAGE));
  std::vector<Row> rows;
  bool inside = false;
  std::smatch cells;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    if (!inside || !std::regex_match(line, cells, kRow)) continue;
    const std::string left = cells[1];
    Row& row = rows.emplace_back(Row{{}, cells[2]});
    for (auto at = std::sregex_iterator(left.begin(), left.end(), kCode);
         at != std::sregex_iterator(); ++at)
      row.theirs.push_back((*at)[1]);
  }
  return rows;
}

// "refused: `TEXT`" is an error, "`TEXT`" stands in the output.
TEST(LmcachePageTest, ConvertedSettingsMatchThePage) {
  std::set<std::string> seen;
  for (const Row& row : rows_of("Settings that are converted")) {
    ASSERT_EQ(row.theirs.size(), 1U);
    const std::string& setting = row.theirs.front();
    const std::size_t colon = setting.find(": ");
    seen.insert(setting.substr(0, colon));
    const LmcacheSetting given{setting.substr(0, colon), setting.substr(colon + 2), "page"};
    const Result<ImportedLmcache> imported = import_lmcache({&given, 1});
    const bool refused = row.ours.starts_with("refused: ");
    const std::string words =
        row.ours.substr(refused ? 10 : 1, row.ours.size() - (refused ? 11 : 2));
    EXPECT_EQ(imported.ok(), !refused) << setting;
    EXPECT_NE((imported.ok() ? imported->yaml : imported.status().text()).find(words),
              std::string::npos)
        << setting << ": " << words;
  }
  for (const LmcacheKey& key : lmcache_keys())
    EXPECT_EQ(seen.contains(std::string(key.key)), key.counterpart == Counterpart::kConverted)
        << key.key;
}

TEST(LmcachePageTest, OtherSettingsMatchThePage) {
  static const std::map<Counterpart, std::string> kTitles{
      {Counterpart::kAlways, "No setting needed"}, {Counterpart::kNone, "No counterpart"}};
  std::map<std::string, std::string, std::less<>> page;
  for (const Row& row : rows_of("All other settings"))
    for (const std::string& key : row.theirs) page[key] = row.ours;
  std::size_t found = 0;
  for (const LmcacheKey& key : lmcache_keys()) {
    if (key.counterpart == Counterpart::kConverted) continue;
    const LmcacheSetting given{std::string(key.key), "x", "page"};
    const Result<ImportedLmcache> imported = import_lmcache({&given, 1});
    ASSERT_TRUE(imported.ok()) << key.key;
    EXPECT_NE(imported->yaml.find("#   " + std::string(key.key) +
                                  " (page): " + std::string(key.words) + "\n"),
              std::string::npos)
        << key.key;
    EXPECT_EQ(page[std::string(key.key)],
              kTitles.at(key.counterpart) + ": " + std::string(key.words))
        << key.key;
    ++found;
  }
  EXPECT_EQ(page.size(), found) << "the page has a key that larderctl does not know";
}

}  // namespace
}  // namespace larder::ctl
