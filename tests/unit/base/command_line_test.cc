#include "sidecar/base/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::base {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Words = std::vector<std::string_view>;

struct Arguments {
  bool json = false;
  std::string file;
  // log: "NAME" of a flag, "NAME=VALUE" of an option
  std::vector<std::string> log = {}, words = {}, rest = {};
};

bool note_flag(Arguments& arguments, std::string_view name, std::string_view) {
  arguments.log.emplace_back(name);
  return true;
}
bool note(Arguments& arguments, std::string_view name, std::string_view value) {
  arguments.log.push_back(std::string(name) + "=" + std::string(value));
  return value != "bad";
}

constexpr Option<Arguments> kOptions[] = {
    {"--json", "", set_flag<&Arguments::json>},
    {"-A", "", note_flag},
    {"--name", "a name", note},
    {"-n", "a name", note},
    {"--file", "a file", set_text<&Arguments::file>},
    {"--skip", "", note_flag},
    {"--skip", "true or false", note},
};

Result<Arguments> parse(const Words& words, const Grammar<Arguments>& grammar,
                        Arguments defaults = {}) {
  return parse_command_line<Arguments>(kOptions, grammar, words, std::move(defaults));
}
std::vector<std::string> log_of(const Words& words, const Grammar<Arguments>& grammar) {
  const Result<Arguments> arguments = parse(words, grammar);
  return arguments.ok() ? arguments->log : std::vector<std::string>{arguments.status().text()};
}

constexpr Grammar<Arguments> kAnywhere{
    .unknown = "is unknown", .operands = &Arguments::words, .rest = &Arguments::rest};
constexpr Grammar<Arguments> kStrict{.unknown = "is unknown",
                                     .option_is_no_value = true,
                                     .empty_is_missing = true,
                                     .quotes_word = true};
constexpr Grammar<Arguments> kLetters{
    .unknown = "is unknown", .operands = &Arguments::words, .letters = true};

TEST(CommandLineParserTest, OptionsStandBetweenOperandsUntilTwoDashes) {
  const Result<Arguments> arguments =
      parse({"get", "--name", "x", "--json", "it", "--name=y=z", "--", "--json", "-"}, kAnywhere);
  ASSERT_TRUE(arguments.ok()) << arguments.status().text();
  EXPECT_THAT(arguments->log, ElementsAre("--name=x", "--name=y=z"));
  EXPECT_TRUE(arguments->json);
  EXPECT_THAT(arguments->words, ElementsAre("get", "it"));
  EXPECT_THAT(arguments->rest, ElementsAre("--json", "-"));
  EXPECT_THAT(log_of({}, kAnywhere), IsEmpty());
}

TEST(CommandLineParserTest, DefaultsStayUntilAnOptionReplacesThem) {
  EXPECT_EQ(parse({"--json"}, kAnywhere, {.file = "a"})->file, "a");
  EXPECT_EQ(parse({"--file=b", "--file", "c"}, kAnywhere, {.file = "a"})->file, "c");
  EXPECT_EQ(parse({"--file="}, kAnywhere).status().text(), "'--file' needs a file");
}

TEST(CommandLineParserTest, AnUnknownWordIsQuotedWhole) {
  EXPECT_THAT(log_of({"--nam=x"}, kAnywhere), ElementsAre("'--nam=x' is unknown"));
  EXPECT_THAT(log_of({"--json=1"}, kAnywhere), ElementsAre("'--json=1' is unknown"));
  EXPECT_THAT(log_of({"-"}, kAnywhere), ElementsAre("'-' is unknown"));
  EXPECT_THAT(log_of({""}, kStrict), ElementsAre("'' is unknown"));
  EXPECT_THAT(log_of({"operand"}, kStrict), ElementsAre("'operand' is unknown"));
  EXPECT_THAT(log_of({"--"}, kStrict), ElementsAre("'--' is unknown"));
}

TEST(CommandLineParserTest, MissingOrBadValueNamesItsOption) {
  EXPECT_THAT(log_of({"--name"}, kAnywhere), ElementsAre("'--name' needs a name"));
  EXPECT_THAT(log_of({"--name=bad"}, kAnywhere), ElementsAre("'--name' needs a name"));
  EXPECT_THAT(log_of({"--name="}, kAnywhere), ElementsAre("--name="));
  EXPECT_THAT(log_of({"--name", "--json"}, kAnywhere), ElementsAre("--name=--json"));
  const Grammar<Arguments> hinting{
      .unknown = "is unknown", .hint = " (see --help)", .empty_is_missing = true};
  EXPECT_THAT(log_of({"--name"}, hinting), ElementsAre("'--name' needs a name (see --help)"));
  EXPECT_THAT(log_of({"--name="}, hinting), ElementsAre("'--name' needs a name (see --help)"));
  EXPECT_THAT(log_of({"--name", ""}, hinting), ElementsAre("'--name' needs a name (see --help)"));
}

TEST(CommandLineParserTest, AStrictGrammarQuotesTheWordAndItsValue) {
  EXPECT_THAT(log_of({"--name="}, kStrict), ElementsAre("'--name=' needs a name"));
  EXPECT_THAT(log_of({"--name", "--json"}, kStrict), ElementsAre("'--name' needs a name"));
  EXPECT_THAT(log_of({"--name", "-x"}, kStrict), ElementsAre("--name=-x"));
  EXPECT_THAT(log_of({"--name=bad"}, kStrict), ElementsAre("'--name=bad' takes a name, not 'bad'"));
  EXPECT_THAT(log_of({"--name", "bad"}, kStrict), ElementsAre("'--name' takes a name, not 'bad'"));
}

TEST(CommandLineParserTest, ValueMayFollowALetterOptionDirectly) {
  EXPECT_THAT(log_of({"-njobs", "-n=jobs", "-n", "jobs", "-A", "-n="}, kLetters),
              ElementsAre("-n=jobs", "-n=jobs", "-n=jobs", "-A", "-n="));
  EXPECT_THAT(log_of({"-Ax"}, kLetters), ElementsAre("'-Ax' is unknown"));
  EXPECT_THAT(log_of({"-x"}, kLetters), ElementsAre("'-x' is unknown"));
  EXPECT_THAT(log_of({"-njobs"}, kAnywhere), ElementsAre("'-njobs' is unknown"));
}

TEST(CommandLineParserTest, AFlagMayAlsoBeAnOptionWithAValue) {
  EXPECT_THAT(log_of({"--skip", "--skip=false", "--skip="}, kAnywhere),
              ElementsAre("--skip", "--skip=false", "--skip="));
  EXPECT_EQ(parse({"--skip", "false"}, kAnywhere)->words, std::vector<std::string>{"false"});
}

}  // namespace
}  // namespace larder::base
