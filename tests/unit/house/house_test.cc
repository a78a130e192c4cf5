#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/unit/house/root.h"
#include "tests/unit/house/rules.h"
#include "tests/unit/text_file.h"

namespace larder::house {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

bool is_source(const fs::path& file) {
  const std::string suffix = file.extension();
  return suffix == ".cc" || suffix == ".h" || suffix == ".cu" || suffix == ".cuh";
}

std::vector<fs::path> sources() {
  std::vector<fs::path> found;
  for (const char* top : {"shim", "cuda", "sidecar", "operator", "tests"}) {
    if (!fs::exists(kRoot / top)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / top))
      if (entry.is_regular_file() && is_source(entry.path())) found.push_back(entry.path());
  }
  return found;
}

TEST(HouseTest, EveryIncludeUsesAPublicHeader) {
  const std::vector<fs::path> files = sources();
  EXPECT_GT(files.size(), 50U);
  for (const fs::path& file : files)
    for (const std::string& wrong :
         check_source(fs::relative(file, kRoot).string(), test::text_of(file)))
      ADD_FAILURE() << wrong;
}

// The README without the table that .ci/room_tables.py writes.
std::string by_hand(std::string text) {
  const std::size_t begin = text.find("<!-- `make docs-map` writes this table");
  const std::size_t end = text.find("<!-- End of the table. -->");
  return begin < end && end != std::string::npos ? text.erase(begin, end - begin) : text;
}

TEST(HouseTest, EveryRoomHasAShortReadme) {
  std::vector<fs::path> folders;
  for (const char* name :
       {"cuda", "operator", "charts", "manifests", "tests", "e2e", "sidecar/tiers", "shim/python"})
    folders.push_back(kRoot / name);
  for (const Room& room : rooms())
    if (fs::exists(kRoot / room.path)) folders.push_back(kRoot / room.path);
  for (const fs::path& folder : folders) {
    const fs::path readme = folder / "README.md";
    if (!fs::exists(readme)) {
      ADD_FAILURE() << fs::relative(readme, kRoot) << " is missing";
      continue;
    }
    const std::string text = by_hand(test::text_of(readme));
    const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
    EXPECT_LE(lines, kMostReadmeLines) << fs::relative(readme, kRoot);
    EXPECT_GE(lines, 3U) << fs::relative(readme, kRoot);
  }
}

TEST(HouseTest, TopLevelFoldersMatchTheDesign) {
  const std::vector<std::string> allowed{"sidecar",
                                         "shim",
                                         "cuda",
                                         "operator",
                                         "charts",
                                         "manifests",
                                         "tests",
                                         "e2e",
                                         "plugins",
                                         "docs",
                                         "build",
                                         "CMakeLists.txt",
                                         "CMakePresets.json",
                                         "Makefile",
                                         "README.md",
                                         "CHANGELOG.md",
                                         "CONTRIBUTING.md",
                                         "LICENSE",
                                         "NOTICE",
                                         "Dockerfile",
                                         "mkdocs.yml",
                                         "shared",
                                         "SECURITY.md",
                                         "CODE_OF_CONDUCT.md"};
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name.starts_with(".") || std::ranges::find(allowed, name) != allowed.end())
        << name << " at the top level";
  }
}

// pytest imports a test by its file's name alone: of two equal ones it refuses the second.
TEST(HouseTest, NoTwoPythonTestsHaveOneName) {
  std::map<std::string, fs::path> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("test_") || !name.ends_with(".py")) continue;
    const auto [same, first] = found.emplace(name, entry.path());
    EXPECT_TRUE(first) << entry.path() << " is named as " << same->second;
  }
  EXPECT_GT(found.size(), 50U);
}

// The rules themselves: each must be able to fail.
TEST(HouseTest, RulesFindEveryKindOfViolation) {
  const auto check = [](std::string_view path, const std::string& include) {
    return check_source(path, "#pragma once\n" + include + "\n");
  };
  EXPECT_THAT(
      check("shim/protocol/a.h", "#include \"sidecar/base/log.h\""),
      ElementsAre("shim/protocol/a.h:2: shim/protocol/ has no door to \"sidecar/base/log.h\""));
  EXPECT_THAT(
      check("sidecar/session/a.cc", "#include \"shim/client/client.h\""),
      ElementsAre(
          "sidecar/session/a.cc:2: sidecar/session/ has no door to \"shim/client/client.h\""));
  EXPECT_THAT(check("sidecar/store/a.cc", "#include <chrono>"),
              ElementsAre("sidecar/store/a.cc:2: sidecar/store/ may not see chrono"));
  EXPECT_THAT(check("sidecar/store/a.cc", "#include \"shim/base/fd.h\""),
              ElementsAre("sidecar/store/a.cc:2: sidecar/store/ may not see shim/base/fd.h"));
  EXPECT_THAT(
      check("sidecar/tiers/a.cc", "#include \"sidecar/loop/sidecar.h\""),
      ElementsAre(
          "sidecar/tiers/a.cc:2: sidecar/tiers/ has no door to \"sidecar/loop/sidecar.h\""));
  EXPECT_THAT(
      check("sidecar/tiers/disk/a.cc", "#include \"sidecar/tiers/remote/topology/links.h\""),
      ElementsAre("sidecar/tiers/disk/a.cc:2: sidecar/tiers/ may not see "
                  "sidecar/tiers/remote/topology/links.h"));
  EXPECT_THAT(check("sidecar/tiers/remote/a.cc", "#include \"sidecar/tiers/disk/health.h\""),
              ElementsAre("sidecar/tiers/remote/a.cc:2: sidecar/tiers/remote/ has no door to "
                          "\"sidecar/tiers/disk/health.h\""));
  EXPECT_THAT(check("sidecar/tiers/remote/topology/links.cc", "#include <hiredis/hiredis.h>"),
              ElementsAre("sidecar/tiers/remote/topology/links.cc:2: <hiredis/hiredis.h> belongs "
                          "into sidecar/net/resp.cc alone"));
  EXPECT_THAT(
      check("sidecar/app/a.cc", "#include <httplib.h>"),
      ElementsAre("sidecar/app/a.cc:2: <httplib.h> belongs into sidecar/pages/routes.cc alone"));
  EXPECT_THAT(
      check("sidecar/session/a.cc", "#include <boost/asio.hpp>"),
      ElementsAre(
          "sidecar/session/a.cc:2: <boost/asio.hpp> is of a library that rules.cc does not know"));
  EXPECT_THAT(check("sidecar/newroom/a.cc", "#include <string>"),
              ElementsAre("sidecar/newroom/a.cc:1: no room of the house (rules.cc lists them)"));
  EXPECT_THAT(check_source("cuda/a.h", std::string(601, '\n')),
              ElementsAre("cuda/a.h:601: longer than 600 lines"));
  EXPECT_THAT(check("sidecar/store/a.cc", "#include <vector>"), IsEmpty());
  EXPECT_THAT(
      check("cuda/kernels.cu", "#include <cuda.h>"),
      ElementsAre("cuda/kernels.cu:2: <cuda.h> belongs into cuda/driver_abi_check.cc alone"));
}

}  // namespace
}  // namespace larder::house
