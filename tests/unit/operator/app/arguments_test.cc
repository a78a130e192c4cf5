#include "operator/app/arguments.h"

#include <gtest/gtest.h>

#include <vector>

namespace larder::app {
namespace {

using Words = std::vector<std::string_view>;
const std::map<std::string, std::string> kPod{{"POD_NAMESPACE", "larder"},
                                              {"POD_NAME", "larder-operator-1"}};

TEST(ArgumentsTest, DefaultsComeFromThePod) {
  const Result<Arguments> arguments = parse_arguments(Words{"--image=larder:1"}, kPod);
  ASSERT_TRUE(arguments.ok()) << arguments.status().text();
  EXPECT_EQ(arguments->ns, "larder");
  EXPECT_EQ(arguments->identity, "larder-operator-1");
  EXPECT_TRUE(arguments->leader_elect);
  EXPECT_EQ(arguments->webhook_address, ":9443");
  EXPECT_EQ(arguments->certificate_secret, "larder-webhook-tls");
  EXPECT_EQ(arguments->log_level, base::LogLevel::kInfo);
}

TEST(ArgumentsTest, ValuesFollowAnEqualsSignOrASpace) {
  const Result<Arguments> arguments =
      parse_arguments(Words{"--image", "larder:1", "--namespace=a", "--leader-elect=false",
                            "--log-level", "debug", "--identity", "x"},
                      kPod);
  ASSERT_TRUE(arguments.ok()) << arguments.status().text();
  EXPECT_EQ(arguments->image + " " + arguments->ns + " " + arguments->identity, "larder:1 a x");
  EXPECT_FALSE(arguments->leader_elect);
  EXPECT_EQ(arguments->log_level, base::LogLevel::kDebug);
}

TEST(ArgumentsTest, ImageRegistryIsOptional) {
  EXPECT_EQ(parse_arguments(Words{"--image=larder:1"}, kPod)->image_registry, "");
  EXPECT_EQ(
      parse_arguments(Words{"--image=larder:1", "--image-registry=m:5000/a"}, kPod)->image_registry,
      "m:5000/a");
}

TEST(ArgumentsTest, TheImagesOfPlugInsAreOptional) {
  EXPECT_EQ(parse_arguments(Words{"--image=larder:1"}, kPod)->mooncake_image, "");
  EXPECT_EQ(parse_arguments(Words{"--image=larder:1"}, kPod)->infinistore_image, "");
  EXPECT_EQ(parse_arguments(Words{"--image=larder:1", "--infinistore-image=i:1"}, kPod)
                ->infinistore_image,
            "i:1");
  EXPECT_EQ(
      parse_arguments(Words{"--image=larder:1", "--mooncake-image=m:1"}, kPod)->mooncake_image,
      "m:1");
}

TEST(ArgumentsTest, SecretsForPullingAreAList) {
  const Result<Arguments> arguments =
      parse_arguments(Words{"--image=larder:1", "--image-pull-secrets=one,two"}, kPod);
  ASSERT_TRUE(arguments.ok()) << arguments.status().text();
  EXPECT_EQ(arguments->image_pull_secrets, (std::vector<std::string>{"one", "two"}));
}

std::string refusal(const Words& words) {
  const Result<Arguments> arguments = parse_arguments(words, kPod);
  return arguments.ok() ? "" : arguments.status().text();
}

TEST(ArgumentsTest, WrongFlagsAreReported) {
  EXPECT_EQ(refusal({"--imagee=x"}), "'--imagee=x' is no flag of larder-operator (see --help)");
  EXPECT_EQ(refusal({"run"}), "'run' is no flag of larder-operator (see --help)");
  EXPECT_EQ(refusal({"--image"}), "'--image' needs IMAGE");
  EXPECT_EQ(refusal({"--image=", "--namespace=a"}), "'--image=' needs IMAGE");
  EXPECT_EQ(refusal({"--image", "--namespace=a"}), "'--image' needs IMAGE");
  EXPECT_EQ(refusal({"--leader-elect=maybe"}),
            "'--leader-elect=maybe' takes true|false, not 'maybe'");
  EXPECT_EQ(refusal({"--log-level=loud"}), "'--log-level=loud' takes LEVEL, not 'loud'");
  EXPECT_EQ(refusal({"--image-pull-secrets=a,,b"}),
            "'--image-pull-secrets=a,,b' takes NAME,..., not 'a,,b'");
  EXPECT_NE(refusal({}).find("--image is missing"), std::string::npos);
  EXPECT_NE(parse_arguments(Words{"--image=x"}, {}).status().text().find("POD_NAMESPACE"),
            std::string::npos);
}

TEST(ArgumentsTest, HelpListsEveryFlag) {
  EXPECT_TRUE(parse_arguments(Words{"--help"}, {})->help);
  EXPECT_TRUE(parse_arguments(Words{"--version"}, {})->version);
  for (const char* flag :
       {"--namespace", "--image", "--image-pull-secrets", "--kubeconfig", "--leader-elect",
        "--lease-name", "--identity", "--metrics-address", "--health-address", "--webhook-address",
        "--webhook-service", "--webhook-configuration", "--certificate-secret",
        "--certificate-directory", "--log-level", "--version", "--help"})
    EXPECT_NE(help_text().find(flag), std::string::npos) << flag;
}

}  // namespace
}  // namespace larder::app
