// The source of the request for a pod's cache: the pod, its namespace, or neither.
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::webhook {
namespace {

using api::Object;

Surroundings::Kept asking(const char* pool) {
  return std::make_shared<const Object>(
      Object{{"metadata", {{"name", "models"}, {"labels", {{"larder.dev/pool", pool}}}}}});
}

Object pod_with(const Object& annotations) {
  return {{"metadata", {{"name", "p"}, {"annotations", annotations}}}};
}

TEST(PoolRequestTest, PodRequestOverridesTheNamespace) {
  const Object annotated = pod_with({{"larder.dev/pool", "own"}});
  EXPECT_EQ(pool_request_of(annotated, asking("all"))->pool, "own");
  EXPECT_TRUE(pool_request_of(annotated, asking("all"))->by_pod);
  EXPECT_TRUE(pool_request_of(annotated, nullptr)->by_pod);
  const std::optional<PoolRequest> of_namespace =
      pool_request_of(pod_with(Object::object()), asking("all"));
  ASSERT_TRUE(of_namespace);
  EXPECT_EQ(of_namespace->pool, "all");
  EXPECT_FALSE(of_namespace->by_pod);
}

TEST(PoolRequestTest, IsEmptyWithoutRequestAndForDecliningPods) {
  EXPECT_FALSE(pool_request_of(pod_with(Object::object()), nullptr));
  EXPECT_FALSE(pool_request_of(
      pod_with(nullptr), std::make_shared<const Object>(Object{{"metadata", {{"labels", 7}}}})));
  EXPECT_FALSE(pool_request_of(pod_with(Object::object()), asking("")));
  EXPECT_FALSE(pool_request_of(pod_with({{"larder.dev/inject", "false"}}), asking("all")));
  EXPECT_FALSE(pool_request_of(
      pod_with({{"larder.dev/inject", "false"}, {"larder.dev/pool", "own"}}), asking("all")));
  EXPECT_TRUE(pool_request_of(pod_with({{"larder.dev/inject", "true"}}), asking("all")));
}

// Of a namespace that asks: a pod of vLLM gets the reason for any obstacle; any other pod is not
// touched.
TEST(NamespaceRequest, AffectsOnlyVllmPods) {
  for (const char* container :
       {"{image: nginx, command: [sleep, '1']}", "{image: redis}",
        "{image: busybox, args: [server]}", "{command: [python3, -m, other], image: other}"}) {
    test::InjectionCase one = test::container_case(container);
    one.by_pod = false;
    for (const bool has_pool : {true, false}) {
      if (!has_pool) one.pool.reset();
      const Injection injection = one.inject();
      EXPECT_EQ(injection.patch, Object::array()) << container;
      EXPECT_EQ(injection.refused, "") << container;
      EXPECT_NE(injection.passed_by, "") << container;
    }
  }
  test::InjectionCase vllm =
      test::container_case("{image: 'vllm/vllm-openai:v1', command: [vllm, serve, m]}");
  vllm.by_pod = false;
  EXPECT_EQ(vllm.inject().refused, "");
  EXPECT_FALSE(vllm.inject().patch.empty());
  vllm.pool.reset();
  EXPECT_EQ(vllm.inject().kind, Refusal::kNoPool);
}

// A flag of vLLM's would end any other program in a container of that name.
TEST(NamespaceRequest, ContainerNameAloneMakesNoEngine) {
  for (const char* container : {"{image: prom/prometheus, args: [--config.file=/etc/p.yml]}",
                                "{image: nginx, command: [nginx]}"})
    for (const bool flags : {true, false}) {
      test::InjectionCase one = test::container_case(container);
      one.pool->spec.engine.container = "engine";
      one.pool->spec.engine.flags = flags;
      one.by_pod = false;
      EXPECT_EQ(one.inject().patch, Object::array()) << container;
      EXPECT_NE(one.inject().passed_by, "") << container;
    }
  test::InjectionCase vllm =
      test::container_case("{image: 'vllm/vllm-openai:v1', args: [--model, m]}");
  vllm.pool->spec.engine.container = "engine";
  vllm.by_pod = false;
  EXPECT_EQ(vllm.inject().refused, "");
  EXPECT_FALSE(vllm.inject().patch.empty());
}

TEST(NamespaceRequest, MalformedPodIsIgnored) {
  test::InjectionCase one = test::container_case("{command: [vllm, serve, m]}");
  one.by_pod = false;
  const Injection injection = one.inject(Object::parse(R"({"spec":{"containers":[]}})"));
  EXPECT_EQ(injection.refused, "");
  EXPECT_NE(injection.passed_by, "");
}

}  // namespace
}  // namespace larder::webhook
