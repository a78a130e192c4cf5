// RuntimeClass and StorageClass of the cluster, as the injector gets them from the webhook.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/webhook/inject/disks.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;
using testing::HasSubstr;

Object object(const std::string& yaml) {
  return from_yaml(yaml).at(0);
}

void quota(InjectionCase& one, const std::string& hard) {
  one.surroundings.quotas.push_back(std::make_shared<const Object>(
      object("{metadata: {name: share}, spec: {hard: " + hard + "}, status: {hard: " + hard +
             ", used: {requests.memory: 0, limits.memory: 0, requests.cpu: 0}}}")));
}

// The API server adds the overhead behind the webhook; with the cache the pod has 69952Mi.
// covers F-450
TEST(ClusterClasses, OverheadOfThePoolsClassCountsInQuotas) {
  InjectionCase one = vllm_case();
  one.pool->spec.transfer = api::Transfer::kSidecar;
  one.pool->spec.runtime_class = "kata";
  quota(one, "{requests.memory: 70Gi, limits.memory: 70Gi}");
  EXPECT_EQ(one.inject().refused, "");
  one.classes.runtime = object("{overhead: {podFixed: {memory: 2Gi, cpu: 250m}}}");
  EXPECT_THAT(one.inject().refused,
              HasSubstr("ResourceQuota share has 70Gi of limits.memory left, and with a cache the "
                        "pod requests 72000Mi instead of 64Gi"));
  one.pool->spec.transfer = api::Transfer::kShim;
  EXPECT_EQ(one.inject().refused, "") << "the pod keeps its runtime";
}

// Of a class that another webhook has set, or that stands in the template.
// covers F-450
TEST(ClusterClasses, OverheadOfThePodsOwnClassCountsOnce) {
  InjectionCase one = vllm_case();
  one.pod["spec"]["runtimeClassName"] = "kata";
  one.classes.runtime = object("{overhead: {podFixed: {memory: 2Gi}}}");
  quota(one, "{requests.memory: 72000Mi}");
  EXPECT_EQ(one.inject().refused, "");
  one.pod["spec"]["overhead"] = {{"memory", "2Gi"}};
  EXPECT_EQ(one.inject().refused, "");
  one.surroundings.quotas.clear();
  quota(one, "{requests.memory: 71999Mi}");
  EXPECT_THAT(one.inject().refused, HasSubstr("72000Mi instead of 66Gi"));
  one.pod["spec"].erase("overhead");
  EXPECT_THAT(one.inject().refused, HasSubstr("72000Mi instead of 66Gi"));
}

// LimitRanger sums containers alone.
TEST(ClusterClasses, OverheadDoesNotCountInLimitRanges) {
  InjectionCase one = vllm_case();
  one.pod["spec"].update({{"runtimeClassName", "kata"}, {"overhead", {{"memory", "2Gi"}}}});
  one.surroundings.limit_ranges.push_back(std::make_shared<const Object>(
      object("{metadata: {name: team}, spec: {limits: [{type: Pod, max: {memory: 69952Mi}}]}}")));
  EXPECT_EQ(one.inject().refused, "");
}

InjectionCase with_claim(const std::string& storage_class) {
  InjectionCase one = vllm_case();
  one.pool->spec.disk = disk_of(10, api::DiskVolume::kEphemeralClaim, storage_class);
  return one;
}

// covers F-451
TEST(ClusterClasses, AbsentStorageClassLeavesThePodAlone) {
  const std::string waits = "the pod would wait for ever for the volume of its disk: ";
  InjectionCase named = with_claim("nvme"), by_default = with_claim("");
  EXPECT_EQ(named.inject().refused, "") << "unknown";
  for (InjectionCase* one : {&named, &by_default}) one->classes.storage = Object();
  EXPECT_EQ(named.inject().refused,
            waits +
                "the cluster has no StorageClass \"nvme\", which disk.storageClassName of "
                "CachePool llama names; create the class, or name another");
  EXPECT_EQ(named.inject().patch.size(), 1U) << "a sentence only";
  EXPECT_EQ(named.inject().kind, webhook::Refusal::kNamespace);
  EXPECT_EQ(by_default.inject().refused,
            waits +
                "CachePool llama names no StorageClass, and the cluster has no default one; "
                "name a class in disk.storageClassName");
  named.pool->spec.disk->volume = api::DiskVolume::kEmptyDir;
  EXPECT_EQ(named.inject().refused, "");
  by_default.pool->spec.disk.reset();
  EXPECT_EQ(by_default.inject().refused, "");
}

// covers F-451
TEST(ClusterClasses, StorageClassThatWaitsForTheSchedulerNeedsTheScheduler) {
  InjectionCase one = with_claim("nvme");
  one.classes.storage =
      object("{metadata: {name: nvme}, provisioner: x, volumeBindingMode: WaitForFirstConsumer}");
  EXPECT_EQ(one.inject().refused, "");
  one.pod["spec"]["nodeName"] = "node-1";
  EXPECT_THAT(one.inject().refused, HasSubstr("StorageClass nvme waits for the scheduler"));
  (*one.classes.storage)["volumeBindingMode"] = "Immediate";
  EXPECT_EQ(one.inject().refused, "");
}

// covers F-451
TEST(ClusterClasses, TopologiesOfTheStorageClassAndTheNodeSelectorAgree) {
  InjectionCase one = with_claim("nvme");
  one.classes.storage = object(
      "{metadata: {name: nvme}, allowedTopologies: [{matchLabelExpressions: [{key: zone, values: "
      "[a, b]}]}, {matchLabelExpressions: [{key: zone, values: [c]}, {key: rack, values: "
      "[r1]}]}]}");
  const auto refused = [&one](const char* selector) {
    one.pod["spec"]["nodeSelector"] = object(selector);
    return one.inject().refused;
  };
  EXPECT_EQ(refused("{}"), "");
  EXPECT_EQ(refused("{gpu: h100}"), "");
  EXPECT_EQ(refused("{zone: b}"), "");
  EXPECT_EQ(refused("{zone: c}"), "") << "of rack r1, perhaps";
  EXPECT_THAT(refused("{zone: d}"),
              HasSubstr("no entry in allowedTopologies of StorageClass nvme"));
  EXPECT_THAT(refused("{zone: c, rack: r2}"),
              HasSubstr("fits the nodeSelector and affinity of the pod"));
}

// One term of the pod's node affinity is enough.
// covers F-430, F-451
TEST(ClusterClasses, NodeAffinityExcludesNodesOfAClass) {
  InjectionCase one = with_claim("nvme");
  one.pool->spec.transfer = api::Transfer::kSidecar;
  one.pool->spec.runtime_class = "nvidia";
  one.classes.storage = object(
      "{metadata: {name: nvme}, allowedTopologies: [{matchLabelExpressions: [{key: zone, values: "
      "[a, b]}]}]}");
  one.classes.runtime = object("{scheduling: {nodeSelector: {zone: a}}}");
  const auto injected = [&one](const std::string& terms) {
    one.pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        object("{nodeSelectorTerms: [" + terms + "]}");
    const webhook::Injection injection = one.inject();
    if (!injection.refused.empty()) return std::string("no volume");
    return api::text_at(patched(one.pod, injection.patch), "spec.runtimeClassName");
  };
  const std::string gpus = "{matchExpressions: [{key: gpu, operator: Exists}]}";
  for (const std::string& both :
       {std::string(), gpus,
        gpus + ", {matchExpressions: [{key: zone, operator: In, values: [d]}]}",
        std::string("{matchExpressions: [{key: zone, operator: In, values: [a, d]}]}"),
        std::string("{matchExpressions: [{key: zone, operator: Exists}]}"),
        std::string("{matchExpressions: [{key: zone, operator: NotIn, values: [b]}]}")})
    EXPECT_EQ(injected(both), "nvidia") << both;
  EXPECT_EQ(injected("{matchExpressions: [{key: zone, operator: NotIn, values: [a]}]}"), "");
  EXPECT_EQ(injected("{matchExpressions: [{key: zone, operator: In, values: [b, d]}]}"), "");
  for (const char* neither :
       {"{key: zone, operator: In, values: [d]}", "{key: zone, operator: NotIn, values: [a, b]}",
        "{key: zone, operator: DoesNotExist}"})
    EXPECT_EQ(injected(std::string("{matchExpressions: [") + neither + "]}"), "no volume")
        << neither;
}

// covers F-451
TEST(ClusterClasses, ClaimWithoutAClassCountsInTheQuotaOfTheDefaultClass) {
  InjectionCase one = with_claim("");
  one.surroundings.quotas.push_back(std::make_shared<const Object>(
      object("{metadata: {name: share}, status: {hard: "
             "{fast.storageclass.storage.k8s.io/requests.storage: "
             "5Gi}, used: {fast.storageclass.storage.k8s.io/requests.storage: 0}}}")));
  EXPECT_EQ(one.inject().refused, "") << "unknown";
  one.classes.storage = object("{metadata: {name: fast}}");
  EXPECT_EQ(one.inject().refused, "") << "the default class no more";
  for (const char* domain : {"storageclass", "storageclass.beta"}) {
    (*one.classes.storage)["metadata"]["annotations"] = {
        {std::string(domain) + ".kubernetes.io/is-default-class", "true"}};
    EXPECT_THAT(one.inject().refused, HasSubstr("ResourceQuota share has 5Gi of fast")) << domain;
  }
}

TEST(ClusterClasses, OddClassesThrowNothing) {
  InjectionCase one = with_claim("nvme");
  one.pool->spec.transfer = api::Transfer::kSidecar;
  one.pool->spec.runtime_class = "kata";
  quota(one, "{requests.memory: 70Gi}");
  for (const char* text : {"7", "[]", "{overhead: 7}", "{overhead: {podFixed: [1]}}",
                           "{overhead: {podFixed: {memory: {}}}}", "{scheduling: 7}",
                           "{metadata: 7}", "{allowedTopologies: 7}", "{allowedTopologies: [7]}",
                           "{allowedTopologies: [{matchLabelExpressions: [7]}]}",
                           "{metadata: {annotations: {storageclass.kubernetes.io/is-default-class: "
                           "'true'}}}"}) {
    one.classes.runtime = one.classes.storage = object(text);
    EXPECT_EQ(one.inject().refused, "") << text;
  }
}

}  // namespace
}  // namespace larder::test
