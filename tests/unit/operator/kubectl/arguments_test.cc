#include "operator/kubectl/arguments.h"

#include <gtest/gtest.h>

#include <fstream>

#include "operator/kubectl/plugin.h"

namespace larder::kubectl {
namespace {

Result<Arguments> parsed(std::vector<std::string_view> words) {
  return parse_arguments(words);
}

TEST(KubeArguments, KubectlOptionsArePassedThrough) {
  const auto arguments =
      parsed({"--context", "blue", "why", "llm", "--as=me", "-n", "models", "-ojson", "-s",
              "https://x", "--insecure-skip-tls-verify", "--insecure-skip-tls-verify=false"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().text();
  EXPECT_EQ(
      arguments->for_kubectl,
      (std::vector<std::string>{"--context=blue", "--as=me", "--server=https://x",
                                "--insecure-skip-tls-verify", "--insecure-skip-tls-verify=false"}));
  EXPECT_EQ(arguments->ns, "models");
  EXPECT_TRUE(arguments->json);
  EXPECT_EQ(arguments->words, (std::vector<std::string>{"why", "llm"}));
}

TEST(KubeArguments, WrongArgumentsAreReported) {
  EXPECT_EQ(parsed({"status", "--contxt=x"}).status().text(),
            "'--contxt=x' is no option of kubectl larder");
  EXPECT_EQ(parsed({"status", "-Ax"}).status().text(), "'-Ax' is no option of kubectl larder");
  EXPECT_EQ(parsed({"status", "-n="}).status().text(), "'-n' needs the name of a namespace");
  EXPECT_EQ(parsed({"status", "-n"}).status().text(), "'-n' needs the name of a namespace");
  EXPECT_EQ(parsed({"status", "--context"}).status().text(),
            "'--context' needs a context of the kubeconfig");
  EXPECT_FALSE(parsed({"status", "--insecure-skip-tls-verify-not"}).ok());
  EXPECT_FALSE(parsed({"status", "-n", "../x"}).ok());
  EXPECT_FALSE(parsed({"status", "-o", "wide"}).ok());
  EXPECT_FALSE(parsed({"check", "-f"}).ok());
  EXPECT_FALSE(parsed({"top", "--interval", "0"}).ok());
  EXPECT_FALSE(parsed({"trace", "llm", "--seconds", "86401"}).ok());
}

TEST(KubeArguments, FileOptionsBelongToCheckOnly) {
  const auto arguments =
      parsed({"check", "-f", "-", "-fa.yaml", "--filename=b", "-k", "c", "-R", "-o", "yaml"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().text();
  EXPECT_EQ(arguments->files,
            (std::vector<std::string>{"--filename=-", "--filename=a.yaml", "--filename=b",
                                      "--kustomize=c", "--recursive"}));
  EXPECT_TRUE(arguments->yaml);
  for (const auto& words : std::vector<std::vector<std::string_view>>{
           {"status", "-f", "x"}, {"pods", "-o", "yaml"}, {"check"}, {"check", "x", "-f", "y"}})
    EXPECT_EQ(run_plugin(words), 2);
}

TEST(KubeArguments, WrongUsageAndInvalidNamesExitWithTwo) {
  for (const auto& words : std::vector<std::vector<std::string_view>>{
           {}, {"what"}, {"why"}, {"why", "a", "b"}, {"why", "../../x"}, {"backend"}})
    EXPECT_EQ(run_plugin(words), 2);
}

TEST(KubeArguments, SimulateRunsLarderctlAndMustComeFirst) {
  const std::string trace = testing::TempDir() + "larder-plugin-trace.jsonl";
  std::ofstream(trace) << R"({"timestamp": 0, "input_length": 512, "hash_ids": [1]})"
                       << "\n"
                       << R"({"timestamp": 1, "input_length": 512, "hash_ids": [1]})"
                       << "\n";
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_plugin(std::vector<std::string_view>{"simulate", trace, "--sizes", "1MiB",
                                                     "--block-bytes", "64KiB"}),
            0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("50.0%"), std::string::npos);
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_plugin(std::vector<std::string_view>{"-n", "models", "simulate", trace}), 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("simulate stands first"),
            std::string::npos);
}

}  // namespace
}  // namespace larder::kubectl
