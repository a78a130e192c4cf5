// The golden files have whole objects; here are the rules behind them.
#include "operator/desired/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/desired/peer_objects.h"
#include "operator/desired/pool_objects.h"
#include "tests/unit/operator/desired/pool_case.h"

namespace larder::desired {
namespace {

using api::Object;
using testing::HasSubstr;

constexpr const char* kPool = "{memory: {size: 1Gi}}";
constexpr const char* kNode = "{placement: Node, memory: {size: 1Gi}}";

constexpr const char* kInfiniStore = "{type: InfiniStore, endpoints: ['i:22345']}";

// A backend of type Mooncake with the given fields of spec.mooncake.
std::string mooncake(const std::string& fields) {
  return "{type: Mooncake, endpoints: ['m:50051'], mooncake: {" + fields + "}}";
}

Object container_of(const std::string& backend, const std::string& pool = kPool) {
  const test::PoolCase one = test::pool_case_of(pool, backend);
  return plugin_container(*one.pool, one.backend, one.defaults).value();
}

Object container(const std::string& fields, const std::string& pool = kPool) {
  return container_of(mooncake(fields), pool);
}

std::string words(const Object& command) {
  std::string text;
  for (const Object& word : command) text += (text.empty() ? "" : " ") + word.get<std::string>();
  return text;
}

struct Row {
  const char *fields, *command, *memory;
};

TEST(PluginContainer, FollowsTheFieldsOfAMooncake) {
  const std::string usual =
      "python3 -m larder_mooncake --socket /run/larder/main.plugin --master m:50051 --protocol ";
  const Row rows[] = {
      {"", "tcp", "448Mi"},
      {"contribute: 0", "tcp", "448Mi"},
      {"contribute: 8Gi", "tcp --contribute 8192MiB", "8832Mi"},
      {"contribute: 500M", "tcp --contribute 476MiB", "1116Mi"},
      {"protocol: rdma, deviceResource: rdma/hca", "rdma", "448Mi"},
      {"protocol: rdma, deviceResource: rdma/hca, devices: [mlx5_0, mlx5_1], contribute: 1Gi",
       "rdma --devices mlx5_0,mlx5_1 --contribute 1024MiB", "1664Mi"},
  };
  for (const Row& row : rows) {
    const Object made = container(row.fields);
    EXPECT_EQ(words(made["command"]), usual + row.command) << row.fields;
    EXPECT_EQ(made["resources"]["limits"]["memory"], row.memory) << row.fields;
    EXPECT_EQ(made["resources"]["requests"]["memory"], row.memory) << row.fields;
  }
}

// The server is that of larderd's backend.url.
TEST(PluginContainer, OfAnInfiniStoreHasTheSocketAlone) {
  const Object made = container_of(kInfiniStore);
  EXPECT_EQ(words(made["command"]),
            "python3 -m larder_infinistore --socket /run/larder/main.plugin");
  EXPECT_EQ(made["name"], "larder-infinistore");
  EXPECT_EQ(made["image"], "larder-infinistore:0.1.0");
  EXPECT_EQ(made["resources"]["limits"], (Object{{"memory", "384Mi"}}));
  EXPECT_FALSE(made.contains("env"));
  EXPECT_FALSE(made.contains("ports"));
}

TEST(PluginContainer, IsAbsentWhereLarderdSpeaksToTheBackend) {
  for (const char* backend : {"", "{endpoints: ['r:6379']}"}) {
    const test::PoolCase one = test::pool_case_of(kPool, backend);
    EXPECT_FALSE(plugin_container(*one.pool, one.backend, one.defaults)) << backend;
    EXPECT_TRUE(plugin_labels(one.backend).empty()) << backend;
  }
}

// covers F-391
TEST(PluginContainer, NeverKeepsAnEngineFromStarting) {
  for (const std::string& backend : {mooncake(""), std::string(kInfiniStore)})
    for (const char* pool : {kPool, kNode})
      for (const char* probe : {"startupProbe", "livenessProbe", "readinessProbe", "lifecycle"})
        EXPECT_FALSE(container_of(backend, pool).contains(probe)) << probe;
  EXPECT_EQ(container_of(kInfiniStore)["restartPolicy"], "Always");
  EXPECT_EQ(container("")["restartPolicy"], "Always");
  EXPECT_FALSE(container("", kNode).contains("restartPolicy")) << "larderd starts beside it";
  test::PoolCase one = test::pool_case_of(kPool, mooncake(""));
  one.defaults.native_sidecars = false;
  EXPECT_FALSE(plugin_container(*one.pool, one.backend, one.defaults)->contains("restartPolicy"));
}

// covers F-390
TEST(PluginContainer, IsLeftOutWithoutItsImage) {
  const auto containers = [](const test::PoolCase& one) {
    return daemon_set(*one.pool, one.backend,
                      one.defaults)["spec"]["template"]["spec"]["containers"]
        .size();
  };
  for (const std::string& backend : {mooncake(""), std::string(kInfiniStore)}) {
    test::PoolCase one = test::pool_case_of(kNode, backend);
    EXPECT_EQ(containers(one), 2U);
    const std::string hash = restart_hash(*one.pool, one.backend, one.defaults);
    one.defaults.plugin_images[one.backend->spec.type].clear();
    EXPECT_FALSE(plugin_container(*one.pool, one.backend, one.defaults));
    EXPECT_EQ(containers(one), 1U);
    EXPECT_NE(restart_hash(*one.pool, one.backend, one.defaults), hash);
  }
}

TEST(PluginContainer, IsRestrictedAndNotLarderdsUser) {
  for (const std::string& backend : {mooncake(""), std::string(kInfiniStore)})
    for (const char* pool : {kPool, kNode}) {
      const test::PoolCase one = test::pool_case_of(pool, backend);
      const Object larderd =
          larderd_container(*one.pool, one.backend, one.defaults)["securityContext"];
      Object plugin = container_of(backend, pool)["securityContext"];
      EXPECT_NE(plugin["runAsUser"], larderd["runAsUser"]);
      plugin["runAsUser"] = larderd["runAsUser"];
      EXPECT_EQ(plugin, larderd) << "the socket admits larderd's group";
    }
  const std::string pool = "{memory: {size: 1Gi}, podSecurity: {runAsUser: 7}}";
  EXPECT_EQ(container("", pool)["securityContext"]["runAsUser"], 7);
}

TEST(PluginContainer, HasDeviceAndLockForRdmaAlone) {
  const Object rdma = container("protocol: rdma, deviceResource: rdma/hca");
  EXPECT_EQ(rdma["resources"]["limits"]["rdma/hca"], "1");
  EXPECT_EQ(rdma["securityContext"]["capabilities"]["add"], Object::array({"IPC_LOCK"}));
  EXPECT_EQ(rdma["securityContext"]["capabilities"]["drop"], Object::array({"ALL"}));
  EXPECT_EQ(rdma["securityContext"]["runAsUser"], 0);
  EXPECT_EQ(rdma["securityContext"]["allowPrivilegeEscalation"], false);
  const test::PoolCase one =
      test::pool_case_of(kPool, mooncake("protocol: rdma, deviceResource: rdma/hca"));
  const Object larderd = larderd_container(*one.pool, one.backend, one.defaults);
  EXPECT_EQ(larderd["securityContext"]["runAsUser"], 65532) << "larderd stays restricted";
  EXPECT_FALSE(larderd["securityContext"]["capabilities"].contains("add"));
}

TEST(PluginContainer, SeesTheSocketOfLarderdAndNoMemory) {
  const Object mounts = container("")["volumeMounts"];
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0],
            (Object{{"name", "larder-run"}, {"mountPath", "/run/larder"}, {"readOnly", true}}));
}

// The region is charged to whoever touches a page first.
TEST(PluginContainer, LarderdGetsMemoryForTheRegion) {
  const auto limit = [](const std::string& pool, const std::string& backend) {
    const test::PoolCase one = test::pool_case_of(pool, backend);
    return larderd_container(*one.pool, one.backend, one.defaults)["resources"]["limits"]["memory"];
  };
  const std::string redis = "{endpoints: ['r:6379']}";
  const std::string least = "{memory: {size: 1Gi}, resources: {limits: {memory: 1296Mi}}}";
  EXPECT_EQ(limit(kPool, redis), "1296Mi");
  EXPECT_EQ(limit(kPool, mooncake("")), "1552Mi");
  EXPECT_EQ(limit(kPool, kInfiniStore), "1552Mi");
  EXPECT_EQ(limit(least, redis), "1296Mi");
  EXPECT_EQ(limit(least, mooncake("")), "1552Mi");
  EXPECT_EQ(limit("{memory: {size: 1Gi}, resources: {limits: {memory: 4Gi}}}", mooncake("")),
            "4Gi");
}

TEST(PluginConfig, LarderdRefusesATtlForAPlugin) {
  const test::PoolCase one = test::pool_case_of(
      "{memory: {size: 1Gi}, backendRef: {name: shared}, backendWrite: {ttl: 12h, rate: 10Mi}}",
      mooncake(""));
  const std::string config = larderd_config(*one.pool, one.backend);
  EXPECT_THAT(config, HasSubstr("url: \"mooncake://m:50051\""));
  EXPECT_THAT(config, HasSubstr("write_rate: \"10MiB\""));
  EXPECT_THAT(config, testing::Not(HasSubstr("ttl")));
}

bool has_port(const Object& rule, int port) {
  for (const Object& range : rule["ports"])
    if (range["protocol"] == "TCP" && range["port"].get<int>() <= port &&
        port <= range.value("endPort", range["port"].get<int>()))
      return true;
  return false;
}

// Whether the policy lets every client reach the port.
bool is_open(const Object& policy, int port) {
  for (const Object& rule : policy["spec"]["ingress"])
    if (!rule.contains("from") && has_port(rule, port)) return true;
  return false;
}

// covers F-392
TEST(PluginPolicy, MembersAloneReachThePorts) {
  const test::PoolCase one =
      test::pool_case_of(kPool, mooncake("membersFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]"));
  for (const Isolation isolation : {Isolation::kNone, Isolation::kAll}) {
    const Object policy = plugin_policy(*one.pool, one.backend, isolation).value();
    EXPECT_EQ(policy["metadata"]["name"], "larder-main-mooncake");
    EXPECT_EQ(policy["spec"]["podSelector"]["matchLabels"],
              (Object{{"larder.dev/mooncake", "shared"}, {"larder.dev/pool", "main"}}));
    const Object& members = policy["spec"]["ingress"][0];
    EXPECT_EQ(members["from"][0]["podSelector"]["matchLabels"],
              (Object{{"larder.dev/mooncake", "shared"}}));
    EXPECT_EQ(members["from"][1]["ipBlock"]["cidr"], "10.0.0.0/8");
    for (const int port : {24000, 24050, 24099}) {
      EXPECT_TRUE(has_port(members, port));
      EXPECT_FALSE(is_open(policy, port)) << port;
    }
    for (const int port : {1, 8000, 9464, 9466, 15000, 23999, 24100, 65535})
      EXPECT_EQ(is_open(policy, port), isolation == Isolation::kNone) << port;
  }
}

// Policies of one pod add up: an open port of one policy is open.
// covers F-392
TEST(PluginPolicy, AndThatOfPeersOpenNoPortOfTheOther) {
  const test::PoolCase one = test::pool_case_of("{memory: {size: 1Gi}, peers: {}}", mooncake(""));
  for (const Object& policy : {plugin_policy(*one.pool, one.backend, Isolation::kNone).value(),
                               peers_policy(*one.pool, one.backend, Isolation::kNone)}) {
    for (const int port : {9466, 24000, 24099}) EXPECT_FALSE(is_open(policy, port)) << port;
    for (const int port : {9465, 9467, 23999, 24100}) EXPECT_TRUE(is_open(policy, port)) << port;
  }
}

// The operator guards no server. The label of the pods is for the user's policy around the server.
// covers F-463
TEST(PluginPolicy, OfAnInfiniStoreIsTheUsers) {
  const test::PoolCase one = test::pool_case_of(kNode, kInfiniStore);
  EXPECT_FALSE(plugin_policy(*one.pool, one.backend, Isolation::kNone));
  const Object set = daemon_set(*one.pool, one.backend, one.defaults);
  EXPECT_EQ(set["spec"]["template"]["metadata"]["labels"]["larder.dev/infinistore"], "shared");
  EXPECT_FALSE(set["spec"]["selector"]["matchLabels"].contains("larder.dev/infinistore"));
}

TEST(PluginPolicy, BelongsToPoolsWithSuchABackendAlone) {
  const auto policies = [](const std::string& pool, const std::string& backend,
                           Isolation isolation = Isolation::kNone) {
    const test::PoolCase one = test::pool_case_of(pool, backend);
    int count = 0;
    for (const Object& object : pool_objects(*one.pool, one.backend, one.defaults, isolation))
      count += object["kind"] == "NetworkPolicy" ? 1 : 0;
    return count;
  };
  EXPECT_EQ(policies(kPool, "{endpoints: ['r:6379']}"), 0);
  EXPECT_EQ(policies(kPool, mooncake("")), 1);
  EXPECT_EQ(policies(kNode, mooncake("")), 1);
  // larder-infinistore listens at no port.
  EXPECT_EQ(policies(kPool, kInfiniStore), 0);
  EXPECT_EQ(policies(kNode, kInfiniStore), 0);
  EXPECT_EQ(policies("{memory: {size: 1Gi}, peers: {}}", kInfiniStore), 1);
  EXPECT_EQ(policies("{memory: {size: 1Gi}, peers: {}}", mooncake("")), 2);
  EXPECT_EQ(policies(kPool, mooncake(""), Isolation::kMixed), 0);
}

// The selector of the policy, and the `from` of every other member.
TEST(PluginPolicy, ThePodsOfTheDaemonSetHaveTheLabel) {
  const test::PoolCase one = test::pool_case_of(kNode, mooncake(""));
  const Object labels =
      daemon_set(*one.pool, one.backend, one.defaults)["spec"]["template"]["metadata"]["labels"];
  EXPECT_EQ(labels["larder.dev/mooncake"], "shared");
  EXPECT_EQ(labels["larder.dev/pool"], "main");
}

}  // namespace
}  // namespace larder::desired
