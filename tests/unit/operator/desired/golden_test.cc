// Pools and backends in, objects out: golden/NAME.in.yaml, NAME.out.yaml and NAME.pod.yaml. The
// real larderd takes larderd's configuration in the outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/desired/pool_case.h"

namespace larder::desired {
namespace {

std::string golden(const std::string& name, const char* which) {
  return std::string(GOLDEN_FOLDER) + "/" + name + which;
}

// The error of `larderd --check-config`; empty: larderd would start with the configuration.
std::string refused_by_larderd(const std::string& config) {
  const std::string file =
      testing::TempDir() + "/larder_golden." + std::to_string(::getpid()) + ".yaml";
  std::ofstream(file) << config;
  FILE* pipe =
      ::popen((std::string("env -i ") + LARDERD_PATH + " --config " + file + " --check-config 2>&1")
                  .c_str(),
              "r");
  std::string said;
  char line[512];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) said += line;
  const int status = ::pclose(pipe);
  std::filesystem::remove(file);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0
             ? ""
             : said + "(status " + std::to_string(status) + ")";
}

class GoldenTest : public testing::TestWithParam<std::string> {};

// After a wanted change: LARDER_TEST_WRITE_GOLDEN=1 and read the difference.
TEST_P(GoldenTest, ObjectsMatchTheGolden) {
  const test::PoolCase one = test::pool_case(test::file_text(golden(GetParam(), ".in.yaml")));
  const std::string text = test::built(one);
  const std::string file = golden(GetParam(), ".out.yaml");
  if (std::getenv("LARDER_TEST_WRITE_GOLDEN") != nullptr) std::ofstream(file) << text;
  EXPECT_EQ(text, test::file_text(file));
}

// With an engine around, for tests/component/kube: a real API server admits the pod under enforced
// Pod Security.
TEST_P(GoldenTest, PodMatchesTheGolden) {
  const test::PoolCase one = test::pool_case(test::file_text(golden(GetParam(), ".in.yaml")));
  if (!one.pool) GTEST_SKIP() << "no pool in it";
  const std::string text = test::to_yaml(test::pod_of(one)), file = golden(GetParam(), ".pod.yaml");
  if (std::getenv("LARDER_TEST_WRITE_GOLDEN") != nullptr) std::ofstream(file) << text;
  EXPECT_EQ(text, test::file_text(file));
}

TEST_P(GoldenTest, LarderdAcceptsTheConfiguration) {
  const test::PoolCase one = test::pool_case(test::file_text(golden(GetParam(), ".in.yaml")));
  if (!one.pool) GTEST_SKIP() << "no pool in it";
  EXPECT_EQ(refused_by_larderd(larderd_config(*one.pool, one.backend, one.engine)), "");
}

INSTANTIATE_TEST_SUITE_P(Inputs, GoldenTest, testing::ValuesIn(test::golden_names()),
                         [](const auto& input) {
                           std::string name = input.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(CheckConfig, RefusesConfigurationInvalidForLarderd) {
  EXPECT_THAT(refused_by_larderd("memory:\n  size: 8GB\n"), testing::HasSubstr("8GB"));
}

// Names are as long, and texts as odd, as the API server allows.
TEST(CheckConfig, OddNamesAreAccepted) {
  const test::PoolCase odd = test::pool_case(
      "{kind: CachePool, metadata: {name: " + std::string(45, 'p') + ", namespace: " +
      std::string(63, 'n') + "}, spec: {memory: {size: 100M}, backendRef: {name: b}}}\n---\n" +
      R"({kind: CacheBackend, metadata: {name: b}, spec: {mode: Sentinel, master: M-1_.x, endpoints: ["[fd00::7]:1", "a_b:2"],
                                                 user: "q\"\\%@:/ü", password: {name: s}, sentinelUser: "\"\\'#:{", sentinelPassword: {name: s}, database: 7, tls: {serverName: "fd00::7"}}})");
  EXPECT_EQ(refused_by_larderd(larderd_config(*odd.pool, odd.backend)), "");
}

}  // namespace
}  // namespace larder::desired
