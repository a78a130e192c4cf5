#include "operator/reconcile/desired_state.h"

#include <gtest/gtest.h>

#include "operator/desired/pool_objects.h"

namespace larder::reconcile {
namespace {

using api::Object;

const desired::Defaults kDefaults{.image = "larder:1"};

Object object(const char* name, const char* spec) {
  return {{"metadata", {{"name", name}, {"namespace", "ml"}, {"uid", "u"}}},
          {"spec", Object::parse(spec)}};
}
api::CachePool pool(const char* spec) {
  const Result<api::CachePool> parsed = api::parse_pool(object("chat", spec));
  EXPECT_TRUE(parsed.ok()) << parsed.status().text();
  return *parsed;
}

TEST(DesiredStateTest, HostNetworkPodHasItsOwnConfiguration) {
  const api::CachePool chat = pool(R"({"memory": {"size": "1Gi"}})");
  const DesiredState desired_state = desired_state_of(chat, {}, kDefaults);
  EXPECT_EQ(desired_state.of_pod.config, desired::larderd_config(chat, {}));
  EXPECT_EQ(desired_state.of_pod.restart_hash, desired::restart_hash(chat, {}, kDefaults));
  EXPECT_NE(desired_state.of_pod_on_host_network.config, desired_state.of_pod.config);
  EXPECT_NE(desired_state.of_pod_on_host_network.restart_hash, desired_state.of_pod.restart_hash);
  EXPECT_EQ(desired_state.engine_hash, desired::engine_hash(chat, kDefaults));
}

TEST(DesiredStateTest, OnlyNodePlacementHasObjects) {
  EXPECT_TRUE(
      desired_state_of(pool(R"({"memory": {"size": "1Gi"}})"), {}, kDefaults).objects.empty());
  const api::CachePool on_nodes = pool(R"({"placement": "Node", "memory": {"size": "1Gi"}})");
  EXPECT_EQ(desired_state_of(on_nodes, {}, kDefaults).objects,
            desired::pool_objects(on_nodes, {}, kDefaults));
}

TEST(DesiredStateTest, ReadableBackendIsUsedInEveryPart) {
  const Result<api::CacheBackend> shared =
      api::parse_backend(object("shared", R"({"endpoints": ["r:6379"]})"));
  ASSERT_TRUE(shared.ok()) << shared.status().text();
  const api::CachePool chat =
      pool(R"({"placement": "Node", "memory": {"size": "1Gi"}, "backendRef": {"name": "shared"}})");
  const DesiredState with = desired_state_of(chat, *shared, kDefaults),
                     without = desired_state_of(chat, {}, kDefaults);
  for (const DesiredConfig DesiredState::*part :
       {&DesiredState::of_pod, &DesiredState::of_pod_on_host_network}) {
    EXPECT_TRUE(desired::has_backend((with.*part).config));
    EXPECT_FALSE(desired::has_backend((without.*part).config));
    EXPECT_NE((with.*part).restart_hash, (without.*part).restart_hash);
  }
  EXPECT_NE(with.objects, without.objects);
}

}  // namespace
}  // namespace larder::reconcile
