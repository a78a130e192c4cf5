#include "sidecar/ctl/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/ctl/commands.h"

namespace larder::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Result<Arguments> parse(const std::vector<std::string_view>& words) {
  return parse_arguments(words);
}
std::string why(const std::vector<std::string_view>& words) {
  const Result<Arguments> arguments = parse(words);
  return arguments.ok() ? find_command(*arguments).status().text() : arguments.status().text();
}

TEST(ArgumentsTest, OptionsStandAnywhere) {
  const Result<Arguments> arguments =
      parse({"--socket=/a", "top", "--interval", "0.5", "--json", "--iterations=3"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().text();
  EXPECT_EQ(arguments->socket, "/a");
  EXPECT_EQ(arguments->interval_seconds, 0.5);
  EXPECT_EQ(arguments->iterations, 3U);
  EXPECT_TRUE(arguments->json);
  EXPECT_THAT(arguments->words, ElementsAre("top"));
  EXPECT_EQ(parse({"top", "--once"})->iterations, 1U);
  EXPECT_EQ(parse({"top"})->iterations, 0U);
}

TEST(ArgumentsTest, WrongOptionsAreReported) {
  EXPECT_EQ(why({"--verbose"}), "'--verbose' is no option of larderctl");
  EXPECT_EQ(why({"--json=1"}), "'--json=1' is no option of larderctl");
  EXPECT_EQ(why({"status", "--socket"}), "'--socket' needs a path");
  EXPECT_EQ(why({"--socket="}), "'--socket' needs a path");
  for (const char* number : {"0", "0.09", "3601", "-1", "nan", "inf", "", "1s", "x"})
    EXPECT_EQ(why({"--interval", number}), "'--interval' needs a number of seconds, 0.1 to 3600")
        << number;
  for (const char* number : {"0", "-1", "1.5", "", "1000000001"})
    EXPECT_EQ(why({"--iterations", number}), "'--iterations' needs a whole number of at least 1")
        << number;
}

TEST(ArgumentsTest, OnlyImportLmcacheTakesACommandLineBehindTwoDashes) {
  const Result<Arguments> arguments =
      parse({"import-lmcache", "--", "lmcache", "server", "--json", "--l1-size-gb", "1"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().text();
  EXPECT_THAT(arguments->command_line,
              ElementsAre("lmcache", "server", "--json", "--l1-size-gb", "1"));
  EXPECT_FALSE(arguments->json);
  EXPECT_TRUE(find_command(*arguments).ok());
  EXPECT_EQ(why({"status", "--", "x"}),
            "'--' is of import-lmcache: 'status' takes no command line");
}

TEST(ArgumentsTest, EveryCommandIsInTheHelpAndChecksItsOperands) {
  for (const Command& command : commands()) {
    EXPECT_THAT(usage(true), HasSubstr("\n  " + std::string(command.name)));
    const std::vector<std::string_view> too_many(command.most + 2, command.name);
    EXPECT_EQ(why(too_many), "'" + std::string(command.name) + "' is too much for '" +
                                 std::string(command.name) + "'");
    if (command.least == 0) continue;
    EXPECT_EQ(why({command.name}), command.missing);
    EXPECT_FALSE(command.missing.empty());
  }
}

TEST(ArgumentsTest, PodCommandsAreListedOnlyWithAll) {
  for (const char* hidden : {"ready", "alive", "started", "install-payload", "init-volumes"}) {
    EXPECT_THAT(usage(), Not(HasSubstr(hidden))) << hidden;
    EXPECT_THAT(usage(true), HasSubstr("\n  " + std::string(hidden)));
  }
  for (const Command& command : commands()) {
    const bool is_described = usage().find(command.help.substr(0, 40)) != std::string::npos;
    EXPECT_EQ(is_described, !command.for_pods) << command.name;
  }
  EXPECT_TRUE(parse({"--help", "--all"})->all);
}

}  // namespace
}  // namespace larder::ctl
