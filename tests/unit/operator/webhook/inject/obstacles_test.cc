// Cases that golden files cannot show well: sizes, and objects that are no pods.
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;

TEST(Injection, MalformedPodIsUnchanged) {
  InjectionCase one = container_case("{command: [vllm, serve, m]}");
  for (const char* text :
       {"null", "[]", "{}", R"({"spec":{"containers":[]}})",
        R"({"metadata":[],"spec":{"containers":[{"name":"a"}]}})",
        R"({"spec":{"containers":[{"name":"a","args":[1]}]}})", R"({"spec":{"containers":["a"]}})",
        R"({"metadata":{"annotations":{"a":1}},"spec":{"containers":[{"name":"a"}]}})"}) {
    const webhook::Injection injection = one.inject(Object::parse(text));
    EXPECT_EQ(injection.patch, Object::array()) << text;
    EXPECT_NE(injection.refused.find("the pod is malformed at "), std::string::npos) << text;
  }
}

// The API server refuses an object with more than 256 KiB of annotations: the pod would not start
// at all.
TEST(Injection, NeverMakesAnnotationsTooLarge) {
  InjectionCase one = container_case("{command: [vllm, serve, m]}");
  Object& annotations = one.pod["metadata"]["annotations"];
  annotations["a"] = std::string((256u << 10) - 200, 'x');
  const webhook::Injection tight = one.inject();
  EXPECT_NE(tight.refused.find("annotations leave no room"), std::string::npos) << tight.refused;
  EXPECT_EQ(tight.patch.size(), 1u) << "the sentence itself has room";
  annotations["a"] = std::string((256u << 10) - 40, 'x');
  EXPECT_EQ(one.inject().patch, Object::array());
}

TEST(Injection, NeedsThePortsOfLarderdAndItsSupervisor) {
  for (const char* port : {"9464", "9465"}) {
    InjectionCase one = container_case(
        std::string("{command: [vllm, serve, m], ports: [{containerPort: ") + port + "}]}");
    EXPECT_NE(one.inject().refused.find(std::string("has port ") + port), std::string::npos)
        << one.inject().refused;
    one.pod["spec"]["hostNetwork"] = true;
    EXPECT_EQ(one.inject().refused, "");
  }
}

TEST(Injection, NeedsThePortOfPeersOnlyForAPoolWithPeers) {
  InjectionCase one = container_case("{command: [vllm, serve, m], ports: [{containerPort: 9466}]}");
  EXPECT_EQ(one.inject().refused, "");
  one.pool->spec.peers.emplace();
  EXPECT_NE(one.inject().refused.find("has port 9466, which larderd uses for peers"),
            std::string::npos)
      << one.inject().refused;
}

// The policy around Mooncake would close a port of the engine.
TEST(Injection, NeedsThePortsOfMooncakeOnlyForAPoolWithMooncake) {
  InjectionCase one =
      container_case("{command: [vllm, serve, m], ports: [{containerPort: 24050}]}");
  EXPECT_EQ(one.inject().refused, "");
  one.backend.emplace();
  one.backend->spec.type = api::BackendType::kMooncake;
  one.backend->spec.endpoints = {"m:50051"};
  EXPECT_NE(one.inject().refused.find("has port 24050, one of those that Mooncake uses"),
            std::string::npos)
      << one.inject().refused;
  one.backend->spec.type = api::BackendType::kInfiniStore;
  EXPECT_EQ(one.inject().refused, "") << "larder-infinistore listens at no port";
}

// The API server refuses a pod with an absent class, or with another node selector than the class.
// covers F-430
TEST(Injection, LeavesOutARuntimeClassThatTheApiServerRefuses) {
  InjectionCase one = container_case("{command: [vllm, serve, m]}");
  one.pool->spec.transfer = api::Transfer::kSidecar;
  one.pool->spec.runtime_class = "nvidia";
  const auto injected = [&one](std::optional<Object> runtime) {
    one.classes.runtime = std::move(runtime);
    const webhook::Injection injection = one.inject();
    EXPECT_EQ(injection.refused, "");
    return patched(one.pod, injection.patch);
  };
  const auto taken = [&](std::optional<Object> runtime) {
    return api::text_at(injected(std::move(runtime)), "spec.runtimeClassName");
  };
  const Object gpus = {{"scheduling", {{"nodeSelector", {{"node.example/kind", "gpu"}}}}}};
  EXPECT_EQ(taken(std::nullopt), "nvidia");
  EXPECT_EQ(taken(Object{{"handler", "nvidia"}}), "nvidia");
  EXPECT_EQ(taken(gpus), "nvidia");
  const Object absent = injected(Object());
  EXPECT_EQ(api::text_at(absent, "spec.runtimeClassName"), "");
  EXPECT_NE(api::annotation(absent, api::kNoticeAnnotation)
                ->find("the cluster has no RuntimeClass nvidia, which spec.runtimeClassName"),
            std::string::npos);
  one.pod["spec"]["nodeSelector"] = {{"node.example/kind", "gpu"}};
  EXPECT_EQ(taken(gpus), "nvidia");
  one.pod["spec"]["nodeSelector"]["node.example/kind"] = "cpu";
  EXPECT_EQ(taken(gpus), "");
  EXPECT_NE(api::annotation(injected(gpus), api::kNoticeAnnotation)
                ->find("excludes node.example/kind of RuntimeClass nvidia"),
            std::string::npos);
}

// The container runtime makes the folder of an inner mount in the outer one, and ends the container
// where the outer one is read-only.
// covers F-431
TEST(Injection, LeavesMountsAloneThatWouldKeepTheEngineFromStarting) {
  const auto refused = [](const std::string& mount, const std::string& volume) {
    InjectionCase one = injection_case(
        "kind: Pod\nmetadata: {name: engine, annotations: {larder.dev/pool: llama}}\nspec: "
        "{volumes: [{name: v, " +
        volume +
        "}], containers: [{name: engine, command: [vllm, serve, m], volumeMounts: [{name: v, "
        "mountPath: " +
        mount + "}]}]}\n");
    return one.inject().refused;
  };
  const std::string inside = "inside Larder's read-only mount", around = "read-only around";
  EXPECT_NE(refused("/larder/models", "emptyDir: {}").find(inside), std::string::npos);
  EXPECT_NE(refused("/run/larder/other/", "emptyDir: {}").find(inside), std::string::npos);
  EXPECT_NE(refused("/run, readOnly: true", "emptyDir: {}").find(around), std::string::npos);
  EXPECT_NE(refused("/run", "configMap: {name: c}").find(around), std::string::npos);
  EXPECT_NE(refused("/run", "persistentVolumeClaim: {claimName: c, readOnly: true}").find(around),
            std::string::npos);
  EXPECT_EQ(refused("/run", "emptyDir: {}"), "");
  EXPECT_EQ(refused("/larders", "configMap: {name: c}"), "");
  EXPECT_EQ(refused("/var/run, readOnly: true", "emptyDir: {}"), "");
}

// The API server would refuse the whole pod of an engine.
// covers F-393
TEST(Injection, LeavesOutAPluginThatPodSecurityRefuses) {
  InjectionCase one = injection_case(R"(
kind: Pod
metadata: {name: engine, annotations: {larder.dev/pool: llama}}
spec: {containers: [{name: vllm, command: [vllm, serve, m]}]}
---
kind: CachePool
metadata: {name: llama, namespace: models}
spec: {memory: {size: 1Gi}}
---
kind: CacheBackend
metadata: {name: shared, namespace: models}
spec: {type: Mooncake, endpoints: ['m:50051'], mooncake: {protocol: rdma, deviceResource: rdma/hca}}
)");
  const auto injected = [&one](const char* level) {
    one.surroundings.ns = std::make_shared<const Object>(
        Object{{"metadata", {{"labels", {{"pod-security.kubernetes.io/enforce", level}}}}}});
    const webhook::Injection injection = one.inject();
    EXPECT_EQ(injection.refused, "");
    return patched(one.pod, injection.patch);
  };
  EXPECT_EQ(injected("privileged")["spec"]["initContainers"].size(), 3U);
  for (const char* level : {"baseline", "restricted"}) {
    const Object pod = injected(level);
    EXPECT_EQ(pod["spec"]["initContainers"].size(), 2U) << level;
    EXPECT_NE(api::annotation(pod, api::kNoticeAnnotation)->find("refuses; use protocol tcp"),
              std::string::npos);
  }
}

TEST(Injection, CutsALongReason) {
  InjectionCase one = container_case("{command: [other]}");
  one.pool_name = "missing";
  one.pool.reset();
  one.ns = std::string(5000, 'n');
  const webhook::Injection injection = one.inject();
  EXPECT_LT(injection.refused.size(), 1100u);
  EXPECT_TRUE(injection.refused.ends_with("..."));
}

// A script may be as long as Kubernetes allows, and is read in a short time.
TEST(Injection, VeryLongScriptIsRefusedUnread) {
  InjectionCase one = container_case("{command: [bash, -c, x]}");
  one.pool->spec.engine.container = "engine";
  one.pod["spec"]["containers"][0]["command"][2] = std::string(2u << 20, 'a');
  EXPECT_NE(one.inject().refused.find("the text is too long"), std::string::npos)
      << one.inject().refused;
}

}  // namespace
}  // namespace larder::test
