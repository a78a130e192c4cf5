// A pool with peers through its reconciles: Service, NetworkPolicy and Secret.
#include <gtest/gtest.h>

#include "operator/reconcile/pool_reconciler.h"
#include "tests/unit/operator/reconcile/operator_world.h"

namespace larder::reconcile {
namespace {

using api::Object;
namespace resources = k8s::resources;

constexpr const char* kPeersName = "larder-chat-peers";

struct PeerPool : OperatorWorld {
  PeerPool() { pool("chat", R"({"memory": {"size": "1Gi"}, "peers": {}})"); }

  void settle() {
    Done done = reconciler.reconcile({"ml", "chat"});
    for (int i = 0; i < 5 && done.again.count() == 1000; ++i)
      done = reconciler.reconcile({"ml", "chat"});
    EXPECT_TRUE(done.status.ok()) << done.status.to_string();
  }
  void add_pod(const std::string& name, const std::string& app) {
    Object one = pod({.name = name});
    one["metadata"]["labels"].update({{std::string(api::kPeersLabel), "chat"}, {"app", app}});
    api.as_user(resources::kPods, one);
  }
  // The rules of the pool's policy; 0: there is none.
  std::size_t rules() const {
    const std::optional<Object> policy = api.find(resources::kNetworkPolicies, "ml", kPeersName);
    return policy ? (*policy)["spec"]["ingress"].size() : 0;
  }

  base::ManualClock clock;
  PoolReconciler reconciler{world, [](const std::vector<PodView>&) { return Heard{}; },
                            [](const k8s::Key&, const std::optional<PoolSums>&, bool) {}, clock};
};

TEST(PeerPoolTest, HasServicePolicyAndSecretWhilePeersAreEnabled) {
  PeerPool run;
  run.settle();
  const std::optional<Object> service = run.api.find(resources::kServices, "ml", kPeersName);
  ASSERT_TRUE(service);
  EXPECT_EQ((*service)["spec"]["clusterIP"], "None");
  EXPECT_EQ(run.rules(), 2U);
  EXPECT_TRUE(run.api.find(resources::kSecrets, "ml", kPeersName));
  run.api.forget_calls();
  run.settle();
  EXPECT_EQ(run.api.writes(), 0U);
  run.pool("chat", R"({"peers": {"enabled": false}})");
  run.settle();
  EXPECT_FALSE(run.api.find(resources::kServices, "ml", kPeersName));
  EXPECT_EQ(run.rules(), 0U);
  EXPECT_EQ(run.condition(resources::kPools, "chat", "PeersReachable"), "(none)");
}

// A policy that denies by default must stay in force for the ports of the engine.
// covers F-320
TEST(PeerPoolTest, PolicyFollowsForeignPolicies) {
  PeerPool run;
  run.add_pod("chat-1", "a");
  run.add_pod("chat-2", "b");
  run.settle();
  EXPECT_EQ(run.rules(), 2U);
  const auto theirs = [&](const char* selector) {
    run.put(resources::kNetworkPolicies, "theirs", R"({"podSelector": null})");
    run.put(resources::kNetworkPolicies, "theirs",
            (std::string(R"({"podSelector": )") + selector + "}").c_str());
    run.settle();
  };
  theirs("{}");
  EXPECT_EQ(run.rules(), 1U);
  theirs(R"({"matchLabels": {"app": "a"}})");
  EXPECT_EQ(run.rules(), 0U) << "no policy can be right for both pods";
  theirs(R"({"matchLabels": {"app": "c"}})");
  EXPECT_EQ(run.rules(), 2U);
  run.api.delete_as_user(resources::kNetworkPolicies, "ml", "theirs");
  run.settle();
  EXPECT_EQ(run.rules(), 2U);
}

// covers F-324
TEST(PeerPoolTest, PoolIsReadyWithoutSecretPermission) {
  PeerPool run;
  run.api.set_failures([](const operator_test::FakeApi::Call& call)
                           -> std::optional<operator_test::FakeApi::Failure> {
    if (call.plural != "secrets") return std::nullopt;
    return operator_test::FakeApi::Failure{Status(Code::kPermissionDenied, "forbidden")};
  });
  run.settle();
  EXPECT_EQ(run.condition(resources::kPools, "chat", "PeersReachable"), "False SecretRefused");
  EXPECT_EQ(run.condition(resources::kPools, "chat", "Ready"), "True NoPods");
}

// covers F-323
TEST(PeerPoolTest, ObjectOfAnotherOwnerIsReported) {
  PeerPool run;
  run.put(resources::kServices, kPeersName, R"({"clusterIP": "10.0.0.1"})");
  run.settle();
  EXPECT_EQ(run.condition(resources::kPools, "chat", "PeersReachable"), "False NameTaken");
  EXPECT_EQ((*run.api.find(resources::kServices, "ml", kPeersName))["spec"]["clusterIP"],
            "10.0.0.1");
}

}  // namespace
}  // namespace larder::reconcile
