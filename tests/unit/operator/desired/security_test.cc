#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "operator/api/names.h"
#include "operator/desired/larderd_user.h"
#include "tests/unit/operator/desired/pool_case.h"

namespace larder::desired {
namespace {

using api::Object;

Object container(const test::PoolCase& one) {
  return larderd_container(*one.pool, one.backend, one.defaults, one.engine);
}

const Object kNothing{{"drop", Object::array({"ALL"})}};

TEST(Security, IsRestrictedInBothPlacements) {
  const Object sidecar = container(test::pool_case_of("{memory: {size: 1Gi}}"))["securityContext"];
  EXPECT_EQ(sidecar["runAsNonRoot"], true);
  EXPECT_EQ(sidecar["runAsUser"], api::kUser);
  EXPECT_EQ(sidecar["readOnlyRootFilesystem"], true);
  EXPECT_EQ(sidecar["allowPrivilegeEscalation"], false);
  EXPECT_EQ(sidecar["capabilities"], kNothing);
  const Object node =
      container(test::pool_case_of("{placement: Node, memory: {size: 1Gi}}"))["securityContext"];
  EXPECT_EQ(node["runAsNonRoot"], true);
  EXPECT_EQ(node["capabilities"], kNothing);
}

// One arena, socket and group a pool. No engine is larderd's user, whatever user the engine has.
TEST(Security, NodePoolsHaveTheirOwnUserAndGroup) {
  std::set<std::int64_t> seen;
  constexpr int kPools = 100;
  for (int i = 0; i < kPools; ++i) {
    test::PoolCase one = test::pool_case_of("{placement: Node, memory: {size: 1Gi}}");
    one.pool->name = "pool-" + std::to_string(i);
    const LarderdUser who = larderd_user(*one.pool);
    EXPECT_EQ(who.user, who.group);
    EXPECT_GE(who.user, 2'000'000'000);
    EXPECT_LT(who.user, std::int64_t{1} << 31);
    EXPECT_EQ(container(one)["securityContext"]["runAsUser"], who.user);
    EXPECT_EQ(container(one)["securityContext"]["runAsGroup"], who.group);
    EXPECT_EQ(engine_pod_security(*one.pool),
              (Object{{"supplementalGroups", Object::array({who.group})}}));
    seen.insert(who.group);
    one.pool->ns += "-other";
    seen.insert(larderd_user(*one.pool).group);
  }
  EXPECT_EQ(seen.size(), 2U * kPools);
}

// Root for a moment, with the right to give folders away only; of all folders that larderd writes.
TEST(Security, NodeInitContainerChangesFolderOwners) {
  const test::PoolCase one = test::pool_case_of(
      "{placement: Node, memory: {size: 1Gi, hugepages: 1Gi}, disk: {size: 9Gi}, podSecurity: "
      "{runAsUser: 7, capabilities: {}}}");
  const Object pod = daemon_set(*one.pool, {}, one.defaults)["spec"]["template"]["spec"];
  ASSERT_EQ(pod["initContainers"].size(), 1U);
  const Object& init = pod["initContainers"][0];
  EXPECT_EQ(init["command"],
            Object::array({"/usr/bin/larderctl", "init-volumes",
                           "7:" + std::to_string(larderd_user(*one.pool).group), "/run/larder",
                           "/dev/larder", "/dev/larder-huge", "/var/lib/larder"}));
  EXPECT_EQ(init["securityContext"]["runAsUser"], 0);
  EXPECT_EQ(init["securityContext"]["runAsNonRoot"], false);
  EXPECT_EQ(init["securityContext"]["capabilities"]["drop"], kNothing["drop"]);
  EXPECT_EQ(init["securityContext"]["capabilities"]["add"],
            Object::array({"CHOWN", "DAC_READ_SEARCH"}));
  EXPECT_EQ(
      freeing_daemon_set(*one.pool, one.defaults)["spec"]["template"]["spec"]["initContainers"],
      pod["initContainers"]);
}

TEST(Security, ConfiguredFieldsOverride) {
  const Object security = container(
      test::pool_case_of("{memory: {size: 1Gi}, podSecurity: {runAsUser: 7}}"))["securityContext"];
  EXPECT_EQ(security["runAsUser"], 7);
  EXPECT_EQ(security["runAsNonRoot"], true);
}

TEST(Security, EngineGetsTheSocketGroupAndAnFsGroupForRootVolumes) {
  const Object usual = engine_pod_security(*test::pool_case_of("{memory: {size: 1Gi}}").pool);
  EXPECT_EQ(usual, (Object{{"supplementalGroups", Object::array({api::kUserGroup})}}));
  const Object claim = engine_pod_security(
      *test::pool_case_of("{memory: {size: 1Gi}, disk: {size: 9Gi, volume: ephemeral}}").pool);
  EXPECT_EQ(claim["fsGroup"], api::kUserGroup);
  EXPECT_EQ(engine_pod_security(*test::pool_case_of("{memory: {size: 1Gi, hugepages: 2Mi}}").pool),
            claim);
  const Object node = engine_pod_security(
      *test::pool_case_of("{placement: Node, memory: {size: 1Gi, hugepages: 2Mi}}").pool);
  EXPECT_FALSE(node.contains("fsGroup"));
}

TEST(Security, SecretsAreOptionalAndMountedOnlyByLarderd) {
  const test::PoolCase one = test::pool_case_of(
      "{memory: {size: 1Gi}, backendRef: {name: shared}}",
      "{endpoints: ['r:6379'], password: {name: s}, tls: {caSecret: c, clientSecret: d}}");
  int sources = 0;
  for (const Object& volume : larderd_volumes(*one.pool, one.backend))
    for (const Object& source : api::at(volume, "projected.sources")) {
      EXPECT_EQ(source["secret"]["optional"], true) << volume.dump();
      ++sources;
    }
  EXPECT_EQ(sources, 3);
  for (const Object& mount : engine_mounts(*one.pool)) {
    EXPECT_EQ(mount["readOnly"], true);
    EXPECT_THAT(mount["name"].get<std::string>(), testing::AnyOf("larder-run", "larder-payload"));
  }
}

// No event of the cache may stop the engine: no probe of an engine's pod asks larderd itself. And
// no probe goes over the network, which a service mesh redirects to a proxy that may run later, or
// that wants a certificate of the kubelet.
// covers F-218
TEST(Probes, SidecarProbesUseTheSupervisorSocket) {
  test::PoolCase one = test::pool_case_of("{memory: {size: 1Gi}}");
  const auto command = [](const char* verb) {
    return Object::array({"/usr/bin/larderctl", "--socket", "/run/larder/main.supervisor", verb});
  };
  for (const bool host_network : {false, true}) {
    one.engine.host_network = host_network;
    const Object larderd = container(one);
    EXPECT_EQ(larderd["startupProbe"]["exec"]["command"], command("started"));
    EXPECT_EQ(larderd["livenessProbe"]["exec"]["command"], command("alive"));
    EXPECT_FALSE(larderd.contains("readinessProbe"))
        << "a late answer would take the engine out of its Service";
    EXPECT_EQ(larderd.contains("ports"), !host_network);
    EXPECT_EQ(larderd["command"][5], host_network ? "/run/larder/main.supervisor" : ":9465")
        << "for the operator";
    EXPECT_EQ(larderd["command"].back(), "/run/larder/main.supervisor")
        << "the only one that an older larderd takes";
  }
  EXPECT_THAT(larderd_config(*one.pool, {}, one.engine), testing::HasSubstr("listen: \"\""));
  one.engine.host_network = false;
  EXPECT_THAT(larderd_config(*one.pool, {}, one.engine), testing::HasSubstr("listen: \":9464\""));
}

// A node's pod is larderd alone: its rollout goes by larderd's answers.
TEST(Probes, NodeProbesUseLarderd) {
  const test::PoolCase one = test::pool_case_of("{placement: Node, memory: {size: 1Gi}}");
  const Object ready =
      Object::array({"/usr/bin/larderctl", "--socket", "/run/larder/main.admin", "ready"});
  EXPECT_EQ(container(one)["readinessProbe"]["exec"]["command"], ready);
  EXPECT_EQ(container(one)["startupProbe"]["exec"]["command"], ready);
  EXPECT_EQ(container(one)["command"].back(), "--watch-config");
}

// covers F-218
TEST(Probes, NoProbeUsesTheNetwork) {
  for (const char* spec : {"{memory: {size: 1Gi}}", "{placement: Node, memory: {size: 1Gi}}"}) {
    const std::string text = container(test::pool_case_of(spec)).dump();
    for (const char* kind : {"httpGet", "tcpSocket", "grpc", "lifecycle"})
      EXPECT_EQ(text.find(kind), std::string::npos) << kind;
  }
}

TEST(Payload, UsesTheResourcesOfThePool) {
  const auto resources = [](const std::string& wanted, const std::string& more = "") {
    const test::PoolCase one = test::pool_case_of(
        "{memory: {size: 1Gi}, injection: {payloadResources: " + wanted + "}" + more + "}");
    return payload_container(*one.pool, one.defaults)["resources"];
  };
  EXPECT_EQ(resources("{}"), (Object{{"requests", {{"cpu", "10m"}, {"memory", "64Mi"}}},
                                     {"limits", {{"memory", "64Mi"}}}}));
  EXPECT_EQ(
      resources("{requests: {cpu: 1, memory: 128Mi}}"),
      (Object{{"requests", {{"cpu", 1}, {"memory", "128Mi"}}}, {"limits", {{"memory", "128Mi"}}}}));
  EXPECT_EQ(resources("{limits: {cpu: 5m, memory: 32Mi}}"),
            (Object{{"requests", {{"cpu", "5m"}, {"memory", "32Mi"}}},
                    {"limits", {{"cpu", "5m"}, {"memory", "32Mi"}}}}));
  EXPECT_EQ(resources("{requests: {cpu: 3}}", ", resources: {limits: {cpu: 2}}")["limits"]["cpu"],
            3);
}

TEST(Sidecar, IsNativeUnlessTheClusterIsTooOld) {
  test::PoolCase one = test::pool_case_of("{memory: {size: 1Gi}}");
  EXPECT_EQ(container(one)["restartPolicy"], "Always");
  one.defaults.native_sidecars = false;
  EXPECT_FALSE(container(one).contains("restartPolicy"));
}

// A registry with authentication: a pod that pulls our images has its Secret.
TEST(PullSecrets, AreMergedFromOperatorAndPoolWithoutDuplicates) {
  test::PoolCase one = test::pool_case_of(
      "{placement: Node, memory: {size: 1Gi}, imagePullSecrets: [{name: theirs}, {name: "
      "everywhere}]}");
  one.defaults.pull_secrets = {"everywhere"};
  const Object both = Object::array({Object{{"name", "everywhere"}}, Object{{"name", "theirs"}}});
  EXPECT_EQ(pull_secrets(one.pool->spec.pull_secrets, one.defaults), both);
  EXPECT_EQ(daemon_set(*one.pool, {}, one.defaults)["spec"]["template"]["spec"]["imagePullSecrets"],
            both);
  test::PoolCase managed = test::pool_case_of("{memory: {size: 1Gi}}", "{managed: {memory: 1Gi}}");
  const auto of_server = [&] {
    return stateful_set(*managed.backend, managed.defaults)["spec"]["template"]["spec"];
  };
  EXPECT_FALSE(of_server().contains("imagePullSecrets"));
  managed.defaults.pull_secrets = {"everywhere"};
  EXPECT_EQ(of_server()["imagePullSecrets"], Object::array({Object{{"name", "everywhere"}}}));
}

// Of one namespace, as both may have the model's name.
TEST(Node, PoolAndManagedBackendObjectsNeverCollide) {
  test::PoolCase one =
      test::pool_case_of("{placement: Node, memory: {size: 1Gi}}", "{managed: {memory: 1Gi}}");
  one.backend->ns = one.pool->ns;
  one.backend->name = "chat";
  std::set<std::string> servers;
  const auto named = [](const Object& object) {
    return api::text_at(object, "kind") + "/" + api::name_of(object);
  };
  for (const Object& object : backend_objects(*one.backend, one.defaults))
    EXPECT_TRUE(servers.insert(named(object)).second);
  for (const char* name : {"chat", "chat-server", "server-chat", "server.chat", "chat.server"}) {
    one.pool->name = name;
    for (const Object& object : pool_objects(*one.pool, one.backend, one.defaults))
      EXPECT_FALSE(servers.contains(named(object))) << named(object);
  }
}

// One arena is one trust domain.
TEST(Node, EachPoolHasItsOwnFolders) {
  const auto folders = [](const test::PoolCase& one) {
    std::vector<std::string> paths;
    for (const Object& volume : larderd_volumes(*one.pool, {}))
      if (volume.contains("hostPath")) paths.push_back(volume["hostPath"]["path"]);
    return paths;
  };
  const std::string spec =
      "{placement: Node, memory: {size: 1Gi, hugepages: 2Mi}, disk: {size: 9Gi, volume: hostPath, "
      "hostPath: /mnt/d}}";
  test::PoolCase one = test::pool_case_of(spec);
  EXPECT_THAT(folders(one),
              testing::UnorderedElementsAre("/run/larder/chat/main", "/dev/shm/larder/chat/main",
                                            "/dev/hugepages/larder/chat/main", "/mnt/d/chat/main"));
  for (const Object& volume : engine_volumes(*one.pool))
    if (volume["name"] == api::kRunVolume) {
      EXPECT_EQ(volume["hostPath"]["path"], "/run/larder/chat/main");
    }
  test::PoolCase other = one;
  other.pool->ns = "other";
  for (const std::string& path : folders(other))
    EXPECT_THAT(folders(one), testing::Not(testing::Contains(path)));
}

TEST(Node, RollsOneNodeAtATimeWithoutSurge) {
  const auto strategy = [](const std::string& node) {
    const test::PoolCase one =
        test::pool_case_of("{placement: Node, memory: {size: 1Gi}" + node + "}");
    return daemon_set(*one.pool, {}, one.defaults)["spec"]["updateStrategy"];
  };
  EXPECT_EQ(strategy(""), (Object{{"type", "RollingUpdate"},
                                  {"rollingUpdate", {{"maxUnavailable", 1}, {"maxSurge", 0}}}}));
  EXPECT_EQ(
      strategy(
          ", node: {updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}}")["rollingUpdate"]
                                                                             ["maxUnavailable"],
      "10%");
  EXPECT_EQ(strategy(", node: {updateStrategy: {type: OnDelete}}"), (Object{{"type", "OnDelete"}}));
}

}  // namespace
}  // namespace larder::desired
