#include "operator/reconcile/backend_reconciler.h"

#include <gtest/gtest.h>

#include "operator/reconcile/conditions.h"
#include "tests/unit/operator/reconcile/operator_world.h"

namespace larder::reconcile {
namespace {

using api::Object;
using operator_test::FakeApi;
namespace resources = k8s::resources;

const k8s::Key kCache{"ml", "cache"};

class FakeCheck final : public BackendCheck {
 public:
  Result<BackendSeen> check(const api::CacheBackend&, const BackendSecrets& secrets,
                            const std::string& prefix, const std::stop_token&) override {
    ++asked;
    if (stopped_within) stop.request_stop();
    last_prefix = prefix;
    const auto password = secrets.bytes.find("backend.password_file");
    last_password = password == secrets.bytes.end() ? "" : password->second;
    return seen;
  }
  BackendSeen seen;
  int asked = 0;
  std::stop_source stop;
  bool stopped_within = false;
  std::string last_prefix, last_password;
};

struct ReconcilingBackend : OperatorWorld {
  ReconcilingBackend() {
    check.seen.product = "Valkey";
    check.seen.version = "8.0.1";
    check.seen.servers = 1;
  }
  Done once() { return reconciler.reconcile(kCache, check.stop.get_token()); }
  std::string ready() const { return condition(resources::kBackends, "cache", "Ready"); }

  FakeCheck check;
  std::map<std::string, LarderdAnswer> answers;
  BackendReconciler reconciler{world, check, [this](const std::vector<PodView>& asked) {
                                 std::map<std::string, LarderdAnswer> found;
                                 for (const PodView& one_pod : asked)
                                   if (const auto one = answers.find(one_pod.name);
                                       one != answers.end())
                                     found[one_pod.uid] = one->second;
                                 return found;
                               }};
};

TEST(BackendReconcilerTest, ExternalServerIsCheckedPeriodically) {
  ReconcilingBackend run;
  run.backend("cache", R"({"endpoints": ["redis:6379"]})");
  const Done done = run.once();
  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.again.count(), BackendReconciler::kCheckMs);
  EXPECT_EQ(run.ready(), "True Answers");
  EXPECT_EQ(run.check.last_prefix, "larder");
  run.api.forget_calls();
  EXPECT_TRUE(run.once().status.ok());
  EXPECT_EQ(run.check.asked, 2);
  EXPECT_EQ(run.api.writes(), 0U);
}

// The next leader asks anew.
// covers F-227
TEST(BackendReconcilerTest, StoppedCheckWritesNoStatus) {
  ReconcilingBackend run;
  run.backend("cache", R"({"endpoints": ["redis:6379"]})");
  run.api.forget_calls();
  run.check.stopped_within = true;
  EXPECT_EQ(run.once().status.code(), Code::kUnavailable);
  EXPECT_EQ(run.check.asked, 1);
  EXPECT_EQ(run.api.writes(), 0U);
}

// covers F-232
TEST(BackendReconcilerTest, SecretIsReadEachTimeFromItsNamespace) {
  ReconcilingBackend run;
  run.backend("cache", R"({"endpoints": ["redis:6379"], "password": {"name": "auth"}})");
  run.once();
  EXPECT_EQ(run.ready(), "False SecretMissing");
  EXPECT_EQ(run.condition(resources::kBackends, "cache", "SecretMissing"), "True NotFound");
  EXPECT_EQ(run.check.asked, 0);
  const auto put = [&](const char* password) {
    run.api.as_user(resources::kSecrets, {{"metadata", {{"name", "auth"}, {"namespace", "ml"}}},
                                          {"data", {{"password", password}}}});
  };
  put("b25l");
  run.once();
  EXPECT_EQ(run.ready(), "True Answers");
  EXPECT_EQ(run.check.last_password, "one");
  put("dHdv");
  run.once();
  EXPECT_EQ(run.check.last_password, "two");
}

// Not in a status, an error or an object: only the check sees the password.
TEST(BackendReconcilerTest, PasswordIsNeverShown) {
  ReconcilingBackend run;
  run.backend("cache", R"({"endpoints": ["redis:6379"], "password": {"name": "auth"}})");
  run.api.as_user(resources::kSecrets, {{"metadata", {{"name", "auth"}, {"namespace", "ml"}}},
                                        {"data", {{"password", "c2VjcmV0"}}}});
  run.once();
  for (const k8s::Resource* kind :
       {&resources::kBackends, &resources::kConfigMaps, &resources::kStatefulSets})
    for (const Object& one : run.api.all(*kind)) {
      EXPECT_EQ(one.dump().find("c2VjcmV0"), std::string::npos);
      EXPECT_EQ(one.dump().find("secret\""), std::string::npos);
    }
}

TEST(BackendReconcilerTest, CheckUsesAPrefixOfItsPools) {
  ReconcilingBackend run;
  run.backend("cache", R"({"endpoints": ["redis:6379"]})");
  run.pool("chat", R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "cache"}})");
  run.once();
  EXPECT_EQ(run.check.last_prefix, "ml.chat");
}

TEST(BackendReconcilerTest, UnreadableSecretFallsBackToSidecarReports) {
  ReconcilingBackend run;
  run.backend("cache", R"({"endpoints": ["redis:6379"], "password": {"name": "auth"}})");
  run.pool("chat", R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "cache"}})");
  run.api.as_user(resources::kPods, pod({}));
  run.api.set_failures([](const FakeApi::Call& call) -> std::optional<FakeApi::Failure> {
    if (call.plural == "secrets")
      return FakeApi::Failure{Status(Code::kPermissionDenied, "forbidden")};
    return std::nullopt;
  });
  EXPECT_TRUE(run.once().status.ok());
  EXPECT_EQ(run.ready(), "Unknown NotChecked");
  run.answers["chat-1"].backend = LarderdAnswer::Backend{true, ""};
  run.once();
  EXPECT_EQ(run.ready(), "True BySidecars");
}

// Redis with maxmemory and noeviction: the server serves its keys, and refuses every write.
TEST(BackendReconcilerTest, FullServerIsReachableAndReportsRefusals) {
  ReconcilingBackend run;
  run.backend("cache", R"({"endpoints": ["redis:6379"]})");
  run.pool("chat", R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "cache"}})");
  run.api.as_user(resources::kPods, pod({}));
  run.once();
  EXPECT_EQ(run.condition(resources::kBackends, "cache", "CacheServes"), "Unknown NotAsked");
  run.answers["chat-1"].backend =
      LarderdAnswer::Backend{true, "OOM command not allowed when used memory > 'maxmemory'"};
  run.once();
  EXPECT_EQ(run.ready(), "True Answers");
  EXPECT_EQ(run.condition(resources::kBackends, "cache", "Reachable"), "True Answers");
  EXPECT_EQ(run.condition(resources::kBackends, "cache", "CacheServes"), "False BackendDegraded");
  const std::string message =
      message_of(*run.api.find(resources::kBackends, "ml", "cache"), "CacheServes");
  EXPECT_NE(message.find("(chat-1) read from the backend"), std::string::npos) << message;
  EXPECT_NE(message.find("OOM command not allowed"), std::string::npos) << message;
  run.answers["chat-1"].backend->reason.clear();
  run.once();
  EXPECT_EQ(run.condition(resources::kBackends, "cache", "CacheServes"), "True Serves");
}

// Only the plug-ins speak to Mooncake.
TEST(BackendReconcilerTest, AMooncakeIsJudgedByTheSidecars) {
  ReconcilingBackend run;
  run.world.defaults.plugin_images = {{api::BackendType::kMooncake, "larder-mooncake:1"}};
  run.backend("cache", R"({"type": "Mooncake", "endpoints": ["m:50051"]})");
  run.pool("chat", R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "cache"}})");
  EXPECT_TRUE(run.once().status.ok());
  EXPECT_EQ(run.ready(), "Unknown NotChecked");
  EXPECT_EQ(run.check.asked, 0);
  run.api.as_user(resources::kPods, pod({}));
  run.answers["chat-1"].backend =
      LarderdAnswer::Backend{false, "Mooncake's master m:50051: Connection refused"};
  run.once();
  EXPECT_EQ(run.ready(), "False NotBySidecars");
  const auto status = [&run] {
    return (*run.api.find(resources::kBackends, "ml", "cache"))["status"];
  };
  EXPECT_NE(status()["lastError"].get<std::string>().find("m:50051: Connection refused"),
            std::string::npos);
  EXPECT_FALSE(status().contains("server"));
  run.answers["chat-1"].backend = LarderdAnswer::Backend{true, "", "larder-mooncake 0.3.13.post1"};
  run.once();
  EXPECT_EQ(run.ready(), "True BySidecars");
  EXPECT_EQ(status()["server"], "Mooncake");
  EXPECT_EQ(status()["version"], "0.3.13.post1");
  EXPECT_EQ(run.condition(resources::kBackends, "cache", "WellSet"), "(none)");
  EXPECT_EQ(run.check.asked, 0);
}

// covers F-390
TEST(BackendReconcilerTest, APluginNeedsItsImage) {
  ReconcilingBackend run;
  const auto ready = [&run](const char* type) {
    const std::string spec = std::string(R"({"type": ")") + type + R"(", "endpoints": ["s:1"]})";
    run.backend("cache", spec.c_str());
    EXPECT_TRUE(run.once().status.ok());
    return run.ready();
  };
  EXPECT_EQ(ready("Mooncake"), "False NoPluginImage");
  run.world.defaults.plugin_images = {{api::BackendType::kMooncake, "larder-mooncake:1"}};
  EXPECT_EQ(ready("Mooncake"), "Unknown NotChecked");
  EXPECT_EQ(ready("InfiniStore"), "False NoPluginImage") << "another plug-in, another image";
  const Object status = (*run.api.find(resources::kBackends, "ml", "cache"))["status"];
  EXPECT_NE(status["lastError"].get<std::string>().find(
                "larder-infinistore: set infinistore.image of the chart"),
            std::string::npos)
      << status["lastError"];
}

TEST(BackendReconcilerTest, AnInfiniStoreHasTheWordsOfItsPlugin) {
  ReconcilingBackend run;
  run.world.defaults.plugin_images = {{api::BackendType::kInfiniStore, "larder-infinistore:1"}};
  run.backend("cache", R"({"type": "InfiniStore", "endpoints": ["i:22345"]})");
  run.pool("chat", R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "cache"}})");
  run.api.as_user(resources::kPods, pod({}));
  run.answers["chat-1"].backend = LarderdAnswer::Backend{true, "", "larder-infinistore 0.2.35"};
  run.once();
  EXPECT_EQ(run.ready(), "True BySidecars");
  EXPECT_EQ(run.check.asked, 0);
  const Object status = (*run.api.find(resources::kBackends, "ml", "cache"))["status"];
  EXPECT_EQ(status["server"], "InfiniStore");
  EXPECT_EQ(status["version"], "0.2.35");
}

TEST(BackendReconcilerTest, AManagedOneHasItsObjectsAndASecondTimeIsQuiet) {
  ReconcilingBackend run;
  run.backend("cache", R"({"managed": {"memory": "1Gi"}})");
  EXPECT_TRUE(run.once().status.ok());
  for (const k8s::Resource* kind :
       {&resources::kStatefulSets, &resources::kServices, &resources::kConfigMaps,
        &resources::kBudgets, &resources::kNetworkPolicies})
    EXPECT_EQ(run.api.all(*kind).size(), 1U) << kind->plural;
  EXPECT_EQ(run.condition(resources::kBackends, "cache", "ObjectsApplied"), "True Applied");
  run.api.forget_calls();
  EXPECT_TRUE(run.once().status.ok());
  EXPECT_EQ(run.api.writes(), 0U);
  // No longer managed: its objects go.
  run.api.as_user(resources::kBackends,
                  {{"metadata", {{"name", "cache"}, {"namespace", "ml"}}},
                   {"spec", {{"managed", nullptr}, {"endpoints", {"redis:6379"}}}}});
  EXPECT_TRUE(run.once().status.ok());
  EXPECT_TRUE(run.api.all(resources::kStatefulSets).empty());
  EXPECT_TRUE(run.api.all(resources::kServices).empty());
}

// OpenShift's restricted-v2 refuses users outside the namespace's range.
// covers F-317
TEST(BackendReconcilerTest, ManagedBackendLeavesTheUserToOpenShift) {
  ReconcilingBackend run;
  run.api.as_user(resources::kNamespaces,
                  {{"metadata",
                    {{"name", "ml"},
                     {"annotations", {{"openshift.io/sa.scc.uid-range", "1000660000/10000"}}}}}});
  run.backend("cache", R"({"managed": {"memory": "1Gi"}})");
  EXPECT_TRUE(run.once().status.ok());
  ASSERT_EQ(run.api.all(resources::kStatefulSets).size(), 1U);
  const Object security =
      api::at(run.api.all(resources::kStatefulSets).front(), "spec.template.spec.securityContext");
  for (const char* id : {"runAsUser", "runAsGroup", "fsGroup"})
    EXPECT_FALSE(security.contains(id)) << id;
  EXPECT_EQ(security["runAsNonRoot"], true);
}

TEST(BackendReconcilerTest, DeletedBackendIsNotReconciled) {
  ReconcilingBackend run;
  EXPECT_TRUE(run.once().status.ok());
  run.backend("cache", R"({"managed": {"memory": "1Gi"}})");
  run.api.as_user(
      resources::kBackends,
      {{"metadata",
        {{"name", "cache"}, {"namespace", "ml"}, {"deletionTimestamp", "2026-01-01T00:00:00Z"}}}});
  EXPECT_TRUE(run.once().status.ok());
  EXPECT_EQ(run.api.writes(), 0U);
}

}  // namespace
}  // namespace larder::reconcile
