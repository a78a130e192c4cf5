// RuntimeClass of the cluster, as the injector gets it from the webhook.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;
using testing::HasSubstr;

InjectionCase engine() {
  return container_case(
      "{image: 'vllm/vllm-openai:v1', command: [vllm, serve, m], resources: {requests: {cpu: 8, "
      "memory: 64Gi}, limits: {memory: 64Gi}}}");
}

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
  InjectionCase one = engine();
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
  InjectionCase one = engine();
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
  InjectionCase one = engine();
  one.pod["spec"].update({{"runtimeClassName", "kata"}, {"overhead", {{"memory", "2Gi"}}}});
  one.surroundings.limit_ranges.push_back(std::make_shared<const Object>(
      object("{metadata: {name: team}, spec: {limits: [{type: Pod, max: {memory: 69952Mi}}]}}")));
  EXPECT_EQ(one.inject().refused, "");
}

TEST(ClusterClasses, OddClassesThrowNothing) {
  InjectionCase one = engine();
  one.pool->spec.transfer = api::Transfer::kSidecar;
  one.pool->spec.runtime_class = "kata";
  quota(one, "{requests.memory: 70Gi}");
  for (const char* text : {"7", "[]", "{overhead: 7}", "{overhead: {podFixed: [1]}}",
                           "{overhead: {podFixed: {memory: {}}}}", "{scheduling: 7}"}) {
    one.classes.runtime = object(text);
    EXPECT_EQ(one.inject().refused, "") << text;
  }
}

}  // namespace
}  // namespace larder::test
