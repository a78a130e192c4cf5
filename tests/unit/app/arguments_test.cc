#include "sidecar/app/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Words = std::vector<std::string_view>;

std::string refusal(const Words& words) {
  return parse_arguments(words).status().text();
}

TEST(LarderdArgumentsTest, ValuesFollowAnEqualsSignOrASpace) {
  EXPECT_EQ(parse_arguments(Words{"--config", "a"})->config_file, "a");
  EXPECT_EQ(parse_arguments(Words{"--config=a", "--config=b=c"})->config_file, "b=c");
  EXPECT_FALSE(parse_arguments(Words{})->config_file.has_value());
  EXPECT_EQ(parse_arguments(Words{"--supervisor-drops", "7"})->supervisor_drops, 7);
  EXPECT_TRUE(parse_arguments(Words{"--watch-config", "-h"})->help);
}

// A child that also got --supervise would start a child of its own, and so on without end.
TEST(LarderdArgumentsTest, TheChildGetsEveryOptionButSupervise) {
  const Result<Arguments> arguments =
      parse_arguments(Words{"--supervise", ":1", "--config=a", "--supervise=/probes.sock",
                            "--watch-config", "--supervise=:2", "--supervisor-drops", "7"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().text();
  EXPECT_THAT(arguments->supervise, ElementsAre(":1", "/probes.sock", ":2"));
  EXPECT_THAT(arguments->of_child,
              ElementsAre("--config", "a", "--watch-config", "--supervisor-drops", "7"));
  EXPECT_THAT(parse_arguments(Words{"--supervise=:1"})->of_child, IsEmpty());
}

TEST(LarderdArgumentsTest, UnknownArgumentIsReported) {
  EXPECT_EQ(refusal({"--memory", "5G"}), "'--memory' is no option of larderd (see larderd --help)");
  EXPECT_EQ(refusal({"serve"}), "'serve' is no option of larderd (see larderd --help)");
  EXPECT_EQ(refusal({"--watch-config=1"}),
            "'--watch-config=1' is no option of larderd (see larderd --help)");
  for (const Words& words : {Words{"--config"}, Words{"--config", ""}, Words{"--config="}})
    EXPECT_EQ(refusal(words), "'--config' needs a file (see larderd --help)");
  for (const Words& words : {Words{"--supervise"}, Words{"--supervise", ""}, Words{"--supervise="}})
    EXPECT_EQ(refusal(words), "'--supervise' needs an address (see larderd --help)");
  EXPECT_EQ(refusal({"--supervisor-drops=x"}),
            "'--supervisor-drops' needs a descriptor of the supervisor (see larderd --help)");
}

}  // namespace
}  // namespace larder
