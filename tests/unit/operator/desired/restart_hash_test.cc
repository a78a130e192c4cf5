// restart_hash covers exactly the settings that a running larderd does not take over
// (sidecar/config/reload.h), and all fields that Kubernetes never changes in a running pod.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sidecar/config/loader.h"
#include "sidecar/config/reload.h"
#include "tests/unit/operator/desired/pool_case.h"

namespace larder::desired {
namespace {

constexpr const char* kBackend = "{endpoints: ['r:6379'], password: {name: s}}";
constexpr const char* kPoolWithBackend =
    "{memory: {size: 1Gi}, disk: {size: 10Gi}, backendRef: {name: shared}}";

config::Config loaded(const test::PoolCase& one) {
  const std::string file =
      testing::TempDir() + "/larder_hash." + std::to_string(::getpid()) + ".yaml";
  std::ofstream(file) << larderd_config(*one.pool, one.backend);
  const Result<config::Config> config = config::load(file, {});
  std::filesystem::remove(file);
  EXPECT_TRUE(config.ok()) << config.status().text();
  return config.ok() ? *config : config::Config();
}

std::string hash(const test::PoolCase& one) {
  return restart_hash(*one.pool, one.backend, one.defaults);
}

TEST(RestartHash, CoversSettingsThatNeedARestart) {
  const std::string head = "{memory: {size: 1Gi}, disk: {size: 10Gi}, backendRef: {name: shared}, ";
  const std::string pools[] = {
      head + "backendWrite: {policy: popular}}",
      head + "backendWrite: {rate: 200Mi}}",
      head + "backendWrite: {ttl: 7d}}",
      "{memory: {size: 1Gi}, disk: {size: 10Gi, write: through}, backendRef: {name: shared}}",
      "{memory: {size: 1Gi}, disk: {size: 10Gi, admitAfter: 2}, backendRef: {name: shared}}",
      "{memory: {size: 1Gi}, disk: {size: 10Gi, ttl: 1h}, backendRef: {name: shared}}",
      "{memory: {size: 1Gi}, disk: {size: 11Gi}, backendRef: {name: shared}}",
      "{memory: {size: 1Gi}, disk: {size: 10Gi}, backendRef: {name: shared, prefix: p}}",
      "{memory: {size: 2Gi}, disk: {size: 10Gi}, backendRef: {name: shared}}",
      "{memory: {size: 1Gi}, disk: {size: 10Gi}, backendRef: {name: shared}, peers: {}}",
      "{memory: {size: 1Gi, numa: auto}, disk: {size: 10Gi}, backendRef: {name: shared}}"};
  const test::PoolCase before = test::pool_case_of(kPoolWithBackend, kBackend);
  int live = 0;
  for (const std::string& spec : pools) {
    const test::PoolCase after = test::pool_case_of(spec, kBackend);
    const config::Reload reload = config::reload(loaded(before), loaded(after));
    ASSERT_FALSE(reload.changed.empty() && reload.waiting.empty()) << spec << " changes nothing";
    EXPECT_EQ(hash(before) != hash(after), !reload.waiting.empty()) << spec;
    live += reload.waiting.empty() ? 1 : 0;
  }
  EXPECT_GE(live, 4);
}

TEST(RestartHash, CoversImageSecretsAndSecurity) {
  const test::PoolCase before = test::pool_case_of(kPoolWithBackend, kBackend);
  EXPECT_EQ(hash(before), hash(test::pool_case_of(kPoolWithBackend, kBackend)));
  EXPECT_NE(hash(before),
            hash(test::pool_case_of(kPoolWithBackend,
                                    "{endpoints: ['r:6379'], password: {name: other}}")));
  EXPECT_NE(hash(before), hash(test::pool_case_of(
                              kPoolWithBackend,
                              "{endpoints: ['r:6379'], password: {name: s}, tls: {caSecret: c}}")));
  EXPECT_NE(hash(before), hash(test::pool_case_of(kPoolWithBackend)));
  test::PoolCase upgraded = before;
  upgraded.defaults.image = "larder:0.2.0";
  EXPECT_NE(hash(before), hash(upgraded));
  upgraded = before;
  upgraded.pool->spec.pod_security = {{"runAsUser", 7}};
  EXPECT_NE(hash(before), hash(upgraded));
}

// Given at injection and kept for the pod's life. With another chunkTokens two engines share no
// chunk: a person must be told.
// covers F-251
TEST(RestartHash, CoversSettingsInjectedIntoEngines) {
  for (const std::string placement : {"Sidecar", "Node"}) {
    const std::string head = "{placement: " + placement + ", memory: {size: 1Gi}";
    const test::PoolCase before = test::pool_case_of(head + "}");
    const auto hash_of_engine = [&](const std::string& more) {
      const test::PoolCase one = test::pool_case_of(head + more + "}");
      return engine_hash(*one.pool, one.defaults);
    };
    for (const std::string more :
         {", chunkTokens: 512", ", engine: {container: main}", ", engine: {flags: false}",
          ", image: other", ", podSecurity: {runAsGroup: 7}"}) {
      EXPECT_NE(hash_of_engine(""), hash_of_engine(more)) << placement << more;
      if (placement == "Node") continue;
      EXPECT_NE(hash(before), hash(test::pool_case_of(head + more + "}"))) << more;
    }
    // Larderd of a node is not rolled for settings of its engines.
    EXPECT_EQ(hash(before) == hash(test::pool_case_of(head + ", chunkTokens: 512}")),
              placement == "Node");
    EXPECT_EQ(hash_of_engine(""), hash_of_engine(", backendRef: {name: shared}"));
  }
}

}  // namespace
}  // namespace larder::desired
