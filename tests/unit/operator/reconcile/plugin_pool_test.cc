// A pool with a backend of type Mooncake through its reconciles: the NetworkPolicy.
#include <gtest/gtest.h>

#include "operator/reconcile/pool_reconciler.h"
#include "tests/unit/operator/reconcile/operator_world.h"

namespace larder::reconcile {
namespace {

using api::Object;
namespace resources = k8s::resources;

constexpr const char* kMooncakeName = "larder-chat-mooncake";
constexpr const char* kMooncake = R"({"type": "Mooncake", "endpoints": ["m:50051"]})";

struct MooncakePool : OperatorWorld {
  MooncakePool() {
    pool("chat", R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "shared"}})");
    backend("shared", kMooncake);
  }

  void settle() {
    Done done = reconciler.reconcile({"ml", "chat"});
    for (int i = 0; i < 5 && done.again.count() == 1000; ++i)
      done = reconciler.reconcile({"ml", "chat"});
    EXPECT_TRUE(done.status.ok()) << done.status.to_string();
  }
  void add_pod(const std::string& name, const std::string& app) {
    Object one = pod({.name = name});
    one["metadata"]["labels"].update({{"larder.dev/mooncake", "shared"}, {"app", app}});
    api.as_user(resources::kPods, one);
  }
  // The rules of the pool's policy; 0: there is none.
  std::size_t rules() const {
    const std::optional<Object> policy = api.find(resources::kNetworkPolicies, "ml", kMooncakeName);
    return policy ? (*policy)["spec"]["ingress"].size() : 0;
  }
  std::string guarded() const { return condition(resources::kPools, "chat", "PortsGuarded"); }

  base::ManualClock clock;
  PoolReconciler reconciler{world, [](const std::vector<PodView>&) { return Heard{}; },
                            [](const k8s::Key&, const std::optional<PoolSums>&, bool) {}, clock};
};

// covers F-392
TEST(MooncakePoolTest, HasAPolicyWhileItsBackendIsAMooncake) {
  MooncakePool run;
  run.settle();
  EXPECT_EQ(run.rules(), 2U);
  EXPECT_EQ(run.guarded(), "True Guarded");
  run.api.forget_calls();
  run.settle();
  EXPECT_EQ(run.api.writes(), 0U);
  run.backend("shared", R"({"type": null, "endpoints": ["r:6379"]})");
  run.settle();
  EXPECT_EQ(run.rules(), 0U);
  EXPECT_EQ(run.guarded(), "(none)");
}

// covers F-392
TEST(MooncakePoolTest, ThePolicyFollowsThePoliciesOfOthers) {
  MooncakePool run;
  run.add_pod("chat-1", "a");
  run.add_pod("chat-2", "b");
  run.settle();
  EXPECT_EQ(run.rules(), 2U);
  run.put(resources::kNetworkPolicies, "theirs", R"({"podSelector": {}})");
  run.settle();
  EXPECT_EQ(run.rules(), 1U);
  run.put(resources::kNetworkPolicies, "theirs",
          R"({"podSelector": {"matchLabels": {"app": "a"}}})");
  run.settle();
  EXPECT_EQ(run.rules(), 0U);
  EXPECT_EQ(run.guarded(), "False MixedPolicies");
}

TEST(MooncakePoolTest, APolicyOfAnotherOwnerIsNamed) {
  MooncakePool run;
  run.put(resources::kNetworkPolicies, kMooncakeName, R"({"podSelector": {}})");
  run.settle();
  EXPECT_EQ(run.guarded(), "False NameTaken");
  EXPECT_EQ(run.condition(resources::kPools, "chat", "Ready"), "True NoPods");
}

}  // namespace
}  // namespace larder::reconcile
