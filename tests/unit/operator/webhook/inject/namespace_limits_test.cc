// A pod that its namespace would refuse because of us is left alone; a pod that can be made to fit
// is made to fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/webhook/inject/disks.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;
using testing::HasSubstr;

void limit(InjectionCase& one, const std::string& limits) {
  one.surroundings.limit_ranges.push_back(std::make_shared<const Object>(
      from_yaml("{metadata: {name: team}, spec: {limits: [" + limits + "]}}").at(0)));
}

void quota(InjectionCase& one, const std::string& hard, const std::string& used,
           const std::string& spec = "") {
  one.surroundings.quotas.push_back(std::make_shared<const Object>(
      from_yaml("{metadata: {name: share}, spec: {hard: " + hard + spec +
                "}, status: {hard: " + hard + ", used: " + used + "}}")
          .at(0)));
}

Object resources_of(const InjectionCase& one, std::string_view name = api::kSidecarContainer) {
  const webhook::Injection injection = one.inject();
  EXPECT_EQ(injection.refused, "");
  const Object pod = patched(one.pod, injection.patch);
  for (const Object& container : pod["spec"]["initContainers"])
    if (container["name"] == name) return container["resources"];
  return {};
}

// covers F-219
TEST(LimitRange, MinimumRaisesTheRequest) {
  InjectionCase one = vllm_case();
  limit(one, "{type: Container, min: {cpu: 200m, memory: 128Mi}}");
  EXPECT_EQ(resources_of(one)["requests"]["cpu"], "200m");
  EXPECT_EQ(resources_of(one, api::kPayloadContainer),
            (Object{{"requests", {{"cpu", "200m"}, {"memory", "128Mi"}}},
                    {"limits", {{"memory", "128Mi"}}}}));
}

TEST(LimitRange, ADefaultLimitIsNeverBelowTheRequest) {
  InjectionCase one = vllm_case();
  limit(one, "{type: Container, default: {cpu: 50m, memory: 32Mi}}");
  EXPECT_EQ(resources_of(one)["limits"]["cpu"], "1");
  EXPECT_EQ(resources_of(one)["limits"]["memory"], "4416Mi");
}

// LimitRanger gives each container without limits the default: a GPU for a copy of a few files.
TEST(LimitRange, DefaultGpusAreNotApplied) {
  InjectionCase one = vllm_case();
  limit(one,
        "{type: Container, default: {nvidia.com/gpu: 1}, defaultRequest: {nvidia.com/gpu: 1}}");
  for (const auto name : {api::kSidecarContainer, api::kPayloadContainer}) {
    EXPECT_EQ(resources_of(one, name)["limits"]["nvidia.com/gpu"], "0");
    EXPECT_EQ(resources_of(one, name)["requests"]["nvidia.com/gpu"], "0");
  }
}

// LimitRanger refuses a container without a limit of a resource that has a maximum.
// covers F-404
TEST(LimitRange, AMaximumOfGpusIsALimitOfNone) {
  InjectionCase one = vllm_case();
  limit(one, "{type: Container, max: {nvidia.com/gpu: 8}}");
  for (const auto name : {api::kSidecarContainer, api::kPayloadContainer})
    EXPECT_EQ(resources_of(one, name)["limits"]["nvidia.com/gpu"], "0");
}

// LimitRanger refuses a limit of 0 where a ratio is set. The figure keeps its fraction.
// covers F-433
TEST(LimitRange, ARatioRefusesALimitOfNone) {
  InjectionCase one = vllm_case("{limits: {nvidia.com/gpu: 1}}");
  limit(one,
        "{type: Container, max: {nvidia.com/gpu: 8}, maxLimitRequestRatio: {nvidia.com/gpu: 1}}");
  EXPECT_THAT(one.inject().refused,
              HasSubstr("LimitRange team has a maxLimitRequestRatio of nvidia.com/gpu, which "
                        "requires the container larder-payload to have a request and a limit"));
  InjectionCase pods = vllm_case("{requests: {cpu: 8}, limits: {cpu: 8}}");
  pods.pool->spec.resources = {{"limits", {{"cpu", "8"}}}, {"requests", {{"cpu", "100m"}}}};
  limit(pods, "{type: Pod, maxLimitRequestRatio: {cpu: 1500m}}");
  EXPECT_THAT(pods.inject().refused, HasSubstr("of at most 1.5 times the request"));
}

TEST(LimitRange, AMaximumOfProcessorsLowersOursAndNotTheUsers) {
  InjectionCase one = vllm_case();
  limit(one, "{type: Container, max: {cpu: 50m}}");
  EXPECT_EQ(resources_of(one)["limits"]["cpu"], "50m");
  EXPECT_EQ(resources_of(one)["requests"]["cpu"], "50m");
  one.pool->spec.resources = {{"requests", {{"cpu", "200m"}}}};
  EXPECT_THAT(one.inject().refused,
              HasSubstr("LimitRange team allows the container larder at most 50m of cpu"));
  EXPECT_EQ(one.inject().kind, webhook::Refusal::kNamespace);
}

TEST(LimitRange, ARatioRaisesTheRequest) {
  InjectionCase one = vllm_case();
  one.pool->spec.resources = {{"limits", {{"cpu", "4"}}}, {"requests", {{"cpu", "500m"}}}};
  limit(one, "{type: Container, maxLimitRequestRatio: {cpu: 3, memory: 1}}");
  EXPECT_EQ(resources_of(one)["requests"]["cpu"], "1334m");
  EXPECT_EQ(resources_of(one, api::kPayloadContainer)["requests"]["cpu"], "334m")
      << "of the limit that follows the pool's";
  InjectionCase without = vllm_case();
  limit(without, "{type: Container, maxLimitRequestRatio: {cpu: 3}}");
  EXPECT_EQ(resources_of(without)["limits"]["cpu"], "100m") << "a ratio wants a limit";
}

TEST(LimitRange, RequiredMemoryIsNotLowered) {
  InjectionCase one = vllm_case();
  limit(one, "{type: Container, max: {memory: 4Gi}}");
  const webhook::Injection injection = one.inject();
  EXPECT_THAT(
      injection.refused,
      HasSubstr(
          "LimitRange team allows the container larder at most 4Gi of memory, and with the cache "
          "the amount is 4416Mi"));
  EXPECT_EQ(injection.patch.size(), 1U) << "a sentence only";
}

TEST(LimitRange, PodLimitCountsConcurrentContainers) {
  InjectionCase one = vllm_case();
  limit(one, "{type: Pod, max: {memory: 66Gi}}");
  EXPECT_THAT(
      one.inject().refused,
      HasSubstr("allows a pod at most 66Gi of memory, and with the cache the amount is 69952Mi"));
  one.surroundings.limit_ranges.clear();
  limit(one, "{type: Pod, max: {memory: 70Gi}}");
  EXPECT_EQ(one.inject().refused, "") << "the payload has ended when the engine runs";
}

TEST(LimitRange, LimitExceededByTheEngineAloneIsIgnored) {
  InjectionCase one = vllm_case();
  limit(one, "{type: Pod, max: {memory: 32Gi}}, {type: Pod, min: {cpu: 100}}");
  EXPECT_EQ(one.inject().refused, "");
}

TEST(LimitRange, ClaimLimitAppliesToTheDisk) {
  InjectionCase one = vllm_case();
  one.pool->spec.disk = disk_of(10, api::DiskVolume::kEphemeralClaim);
  limit(one, "{type: PersistentVolumeClaim, max: {storage: 5Gi}}");
  EXPECT_THAT(one.inject().refused,
              HasSubstr("LimitRange team allows a claim at most 5Gi of storage"));
}

TEST(ResourceQuota, QuotaWithSpaceForTheEngineOnlyPreventsInjection) {
  for (const std::string name : {"requests.memory", "memory", "limits.memory"}) {
    InjectionCase one = vllm_case();
    quota(one, "{" + name + ": 100Gi}", "{" + name + ": 34Gi}");
    EXPECT_THAT(one.inject().refused,
                HasSubstr("ResourceQuota share has 66Gi of " + name +
                          " left, and with a cache the pod requests 69952Mi instead of 64Gi"));
    one.surroundings.quotas.clear();
    quota(one, "{" + name + ": 100Gi}", "{" + name + ": 30Gi}");
    EXPECT_EQ(one.inject().refused, "") << name;
    one.surroundings.quotas.clear();
    quota(one, "{" + name + ": 100Gi}", "{" + name + ": 90Gi}");
    EXPECT_EQ(one.inject().refused, "") << "the engine alone has no room either";
  }
}

TEST(ResourceQuota, UnrelatedResourcesAreIgnored) {
  InjectionCase one = vllm_case();
  quota(one,
        "{pods: 1, count/pods: 1, requests.nvidia.com/gpu: 1, requests.storage: 1Gi, services: 1}",
        "{pods: 1, count/pods: 1, requests.nvidia.com/gpu: 1, requests.storage: 1Gi, services: 1}");
  EXPECT_EQ(one.inject().refused, "");
}

TEST(ResourceQuota, CpuQuotaAddsALimitToInjectedContainers) {
  InjectionCase one =
      vllm_case("{requests: {cpu: 8, memory: 64Gi}, limits: {cpu: 8, memory: 64Gi}}");
  one.pod["spec"]["initContainers"] = Object::array({Object{{"name", "download"}, {"image", "x"}}});
  EXPECT_TRUE(api::at(resources_of(one), "limits.cpu").is_null())
      << "an init container has no request, so no quota is in force";
  quota(one, "{limits.cpu: 100}", "{limits.cpu: 0}");
  EXPECT_EQ(resources_of(one)["limits"]["cpu"], "1");
  EXPECT_EQ(resources_of(one, api::kPayloadContainer)["limits"]["cpu"], "1");
}

TEST(ResourceQuota, ClaimQuotaAppliesToTheDisk) {
  for (const auto& [hard, used] :
       {std::pair{"{requests.storage: 20Gi}", "{requests.storage: 15Gi}"},
        std::pair{"{persistentvolumeclaims: 1}", "{persistentvolumeclaims: 1}"},
        std::pair{"{count/persistentvolumeclaims: 1}", "{count/persistentvolumeclaims: 1}"},
        std::pair{"{nvme.storageclass.storage.k8s.io/requests.storage: 5Gi}",
                  "{nvme.storageclass.storage.k8s.io/requests.storage: 0}"}}) {
    InjectionCase one = vllm_case();
    one.pool->spec.disk = disk_of(10, api::DiskVolume::kEphemeralClaim, "nvme");
    quota(one, hard, used);
    EXPECT_THAT(one.inject().refused, HasSubstr("ResourceQuota share has")) << hard;
    one.pool->spec.disk->volume = api::DiskVolume::kEmptyDir;
    EXPECT_EQ(one.inject().refused, "") << hard;
  }
}

// covers F-220
TEST(ResourceQuota, CountsByScope) {
  const auto refused = [](const std::string& scope, const Object& change) {
    InjectionCase one = vllm_case();
    one.pod["spec"].update(change);
    quota(one, "{requests.memory: 66Gi}", "{requests.memory: 0}", scope);
    return !one.inject().refused.empty();
  };
  const Object none = Object::object(), ends = {{"activeDeadlineSeconds", 60}},
               high = {{"priorityClassName", "high"}};
  EXPECT_TRUE(refused("", none));
  EXPECT_FALSE(refused(", scopes: [Terminating]", none));
  EXPECT_TRUE(refused(", scopes: [Terminating]", ends));
  EXPECT_TRUE(refused(", scopes: [NotTerminating]", none));
  EXPECT_FALSE(refused(", scopes: [BestEffort]", none));
  EXPECT_TRUE(refused(", scopes: [NotBestEffort]", none));
  EXPECT_FALSE(refused(", scopes: [CrossNamespacePodAffinity]", none));
  const auto selector = [](const std::string& how) {
    return ", scopeSelector: {matchExpressions: [{scopeName: PriorityClass, " + how + "}]}";
  };
  EXPECT_TRUE(refused(selector("operator: In, values: [high]"), high));
  EXPECT_FALSE(refused(selector("operator: In, values: [high]"), none));
  EXPECT_FALSE(refused(selector("operator: NotIn, values: [high]"), high));
  EXPECT_TRUE(refused(selector("operator: Exists"), high));
  EXPECT_TRUE(refused(selector("operator: DoesNotExist"), none));
}

// A pod without any request is of no quota of NotBestEffort. With larderd the pod has requests, and
// then each container must have one.
TEST(ResourceQuota, NotBestEffortQuotaRequiresEngineRequests) {
  InjectionCase one = vllm_case("{}");
  quota(one, "{requests.memory: 100Gi}", "{requests.memory: 0}", ", scopes: [NotBestEffort]");
  EXPECT_THAT(
      one.inject().refused,
      HasSubstr("counts a pod with a cache, and requires requests.memory of container engine"));
}

// A level that admits the pod without Larder, and refuses the pod with Larder.
// covers F-407
TEST(PodSecurity, ThatForbidsTheAdditionsLeavesThePodAlone) {
  const auto refused = [](const char* level, const char* spec, const char* pod = "{}") {
    InjectionCase one = vllm_case();
    one.pod["spec"].merge_patch(from_yaml(pod).at(0));
    one.pool = api::parse_pool(from_yaml(std::string("{kind: CachePool, metadata: {name: llama, "
                                                     "namespace: models}, spec: ") +
                                         spec + "}")
                                   .at(0))
                   .value();
    one.surroundings.ns = std::make_shared<const Object>(
        from_yaml(std::string("{metadata: {labels: {pod-security.kubernetes.io/enforce: ") + level +
                  "}}}")
            .at(0));
    return one.inject().refused;
  };
  const char* node = "{placement: Node, memory: {size: 4Gi}}";
  for (const char* level : {"baseline", "restricted"})
    EXPECT_EQ(refused(level, node),
              std::string("the namespace would refuse the pod: Pod Security ") + level +
                  " (label pod-security.kubernetes.io/enforce of the namespace) forbids hostPath "
                  "volumes, which placement Node needs; use a pool of placement Sidecar, or give "
                  "the namespace the level privileged");
  EXPECT_EQ(refused("privileged", node), "");
  EXPECT_EQ(refused("other", node), "");
  EXPECT_EQ(refused("baseline", node, "{volumes: [{name: x, hostPath: {path: /x}}]}"), "")
      << "the level is not applied to the pod, or the pod is refused without Larder";
  EXPECT_EQ(refused("restricted", "{memory: {size: 4Gi}}"), "");
  for (const char* security :
       {"{capabilities: {add: [IPC_LOCK]}}", "{seccompProfile: {type: Unconfined}}",
        "{seLinuxOptions: {type: spc_t}}", "{seLinuxOptions: {user: u}}"})
    for (const char* level : {"baseline", "restricted"})
      EXPECT_THAT(
          refused(level,
                  (std::string("{memory: {size: 4Gi}, podSecurity: ") + security + "}").c_str()),
          HasSubstr("correct podSecurity of CachePool llama"))
          << security;
  for (const char* security :
       {"{runAsNonRoot: false}", "{allowPrivilegeEscalation: true}",
        "{capabilities: {drop: [NET_RAW]}}", "{capabilities: {add: [CHOWN], drop: [ALL]}}"}) {
    const std::string spec = std::string("{memory: {size: 4Gi}, podSecurity: ") + security + "}";
    EXPECT_THAT(refused("restricted", spec.c_str()), HasSubstr("Pod Security restricted"))
        << security;
    EXPECT_EQ(refused("baseline", spec.c_str()), "") << security;
  }
}

TEST(Surroundings, WhateverStandsInThemNothingIsThrown) {
  for (const char* text :
       {"null", "[]", "{}", R"({"spec":[]})", R"({"spec":{"limits":7}})",
        R"({"spec":{"limits":[7,{"type":"Pod","max":[]}]}})",
        R"({"spec":{"limits":[{"type":"Container","max":{"cpu":{}},"min":{"memory":"x"}}]}})",
        R"({"spec":{"hard":[],"scopes":[7]},"status":{"hard":{"cpu":[]},"used":7}})",
        R"({"metadata":{"labels":[],"annotations":7},"status":{"hard":{"cpu":"1"}}})"}) {
    InjectionCase one = vllm_case();
    const auto odd = std::make_shared<const Object>(Object::parse(text));
    one.surroundings = {odd, {odd}, {odd}};
    EXPECT_EQ(one.inject().refused, "") << text;
  }
}

TEST(PodOverrides, ApplyToLarderdAndReportErrors) {
  InjectionCase one = vllm_case();
  Object& annotations = one.pod["metadata"]["annotations"];
  annotations = {{"larder.dev/requests.cpu", "2"},
                 {"larder.dev/limits.cpu", "4"},
                 {"larder.dev/limits.memory", "8Gi"}};
  EXPECT_EQ(resources_of(one), (Object{{"requests", {{"cpu", "2"}, {"memory", "8Gi"}}},
                                       {"limits", {{"cpu", "4"}, {"memory", "8Gi"}}}}));
  for (const auto& [key, value] :
       {std::pair{"larder.dev/limits.memory", "1Gi"}, std::pair{"larder.dev/requests.cpu", "many"},
        std::pair{"larder.dev/requests.cpu", "5"}, std::pair{"larder.dev/limits.cpu", "-1"}}) {
    InjectionCase wrong = one;
    wrong.pod["metadata"]["annotations"][key] = value;
    EXPECT_THAT(wrong.inject().refused, HasSubstr(std::string("the pod's annotation ") + key))
        << value;
    EXPECT_EQ(wrong.inject().kind, webhook::Refusal::kPod);
  }
}

TEST(PodOverrides, ApplyToThePayloadUnderItsPrefix) {
  InjectionCase one = vllm_case();
  Object& annotations = one.pod["metadata"]["annotations"];
  annotations = {{"larder.dev/payload.requests.cpu", "50m"},
                 {"larder.dev/payload.requests.memory", "80Mi"},
                 {"larder.dev/payload.limits.memory", "96Mi"},
                 {"larder.dev/payload.requests.ephemeral-storage", "1Gi"}};
  const Object payload = resources_of(one, api::kPayloadContainer);
  EXPECT_EQ(payload["requests"]["cpu"], "50m");
  EXPECT_EQ(payload["requests"]["memory"], "80Mi");
  EXPECT_EQ(payload["requests"]["ephemeral-storage"], "1Gi");
  EXPECT_EQ(payload["limits"], (Object{{"memory", "96Mi"}}));
  EXPECT_EQ(resources_of(one), resources_of(vllm_case()));  // larderd's stay
  for (const auto& [key, value] : {std::pair{"larder.dev/payload.limits.memory", "1Mi"},
                                   std::pair{"larder.dev/payload.requests.cpu", "many"},
                                   std::pair{"larder.dev/payload.requests.memory", "1Gi"},
                                   std::pair{"larder.dev/payload.limits.cpu", "1m"}}) {
    InjectionCase wrong = one;
    wrong.pod["metadata"]["annotations"][key] = value;
    const std::string refused = wrong.inject().refused;
    EXPECT_THAT(refused, HasSubstr("the pod's annotation larder.dev/payload."))
        << key << ": " << value;
    EXPECT_THAT(refused, HasSubstr("gives larder-payload impossible resources"))
        << key << ": " << value;
    EXPECT_EQ(wrong.inject().kind, webhook::Refusal::kPod);
  }
}

// A pod's annotation wins over the pool, and its missing fields stay the pool's.
TEST(PodOverrides, PayloadOverridesWinOverThePool) {
  InjectionCase one = vllm_case();
  one.pool->spec.injection.payload_resources = {{"requests", {{"cpu", "20m"}}},
                                                {"limits", {{"cpu", "1"}, {"memory", "96Mi"}}}};
  one.pod["metadata"]["annotations"]["larder.dev/payload.limits.memory"] = "128Mi";
  const Object payload = resources_of(one, api::kPayloadContainer);
  EXPECT_EQ(payload["limits"], (Object{{"cpu", "1"}, {"memory", "128Mi"}}));
  EXPECT_EQ(payload["requests"]["cpu"], "20m");
}

// The pool's hash, by which the operator knows the effect of a restart, is of the pool alone.
TEST(PodOverrides, KeepThePoolHash) {
  const auto hash = [](const InjectionCase& one) {
    return *api::annotation(patched(one.pod, one.inject().patch), api::kRestartAnnotation);
  };
  InjectionCase one = vllm_case();
  const std::string before = hash(one);
  one.pod["metadata"]["annotations"]["larder.dev/requests.cpu"] = "2";
  one.pod["metadata"]["annotations"]["larder.dev/payload.requests.cpu"] = "20m";
  EXPECT_EQ(hash(one), before);
}

}  // namespace
}  // namespace larder::test
