#include "sidecar/ctl/hashes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace larder::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kOne = "00112233445566778899aabbccddeeff",
                  kTwo = "ffeeddccbbaa99887766554433221100";

Result<std::vector<std::string>> words(std::vector<std::string> given) {
  return read_hashes(given, std::nullopt);
}
Result<std::vector<std::string>> file(const std::string& text) {
  const std::string path = testing::TempDir() + "larder_hashes." + std::to_string(::getpid());
  std::ofstream(path) << text;
  const auto read = read_hashes({}, path);
  ::unlink(path.c_str());
  return read;
}

TEST(HashesTest, LongHashesAreReducedToTheirKey) {
  EXPECT_THAT(*words({kOne, kTwo + kOne}), ElementsAre(kOne, kTwo));
}

TEST(HashesTest, LinesMayBeEmptyOrCommented) {
  EXPECT_THAT(*file("# the prompt\n" + kOne + "\n\n  " + kTwo + kTwo + " # chunk 2\r\n"),
              ElementsAre(kOne, kTwo));
}

TEST(HashesTest, ArgumentsPrecedeTheFile) {
  const std::string path = testing::TempDir() + "larder_hashes2." + std::to_string(::getpid());
  std::ofstream(path) << kTwo;
  const std::vector<std::string> given{kOne};
  EXPECT_THAT(*read_hashes(given, path), ElementsAre(kOne, kTwo));
  ::unlink(path.c_str());
}

TEST(HashesTest, InvalidHashIsReported) {
  EXPECT_THAT(words({"xyz"}).status().text(), HasSubstr("'xyz' is no hash"));
  EXPECT_THAT(words({kOne.substr(1)}).status().text(), HasSubstr("is no hash"));
  EXPECT_THAT(file(kOne + "\nno\x1bpe\n").status().text(), HasSubstr(":2: 'no\\x1bpe' is no hash"));
  EXPECT_THAT(words({}).status().text(), HasSubstr("which hashes?"));
  EXPECT_THAT(read_hashes({}, "/nonexistent/hashes").status().text(),
              HasSubstr("/nonexistent/hashes: No such file"));
  EXPECT_EQ(read_hashes({}, "/dev").status().text(), "/dev: Is a directory");
  EXPECT_THAT(file("# none yet\n").status().text(),
              HasSubstr(" holds no hash: 32 hex digits or more, one a line"));
}

}  // namespace
}  // namespace larder::ctl
