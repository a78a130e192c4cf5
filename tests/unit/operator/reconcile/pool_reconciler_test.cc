#include "operator/reconcile/pool_reconciler.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <sstream>

#include "operator/desired/larderd.h"
#include "sidecar/base/log_throttle.h"
#include "tests/unit/operator/reconcile/operator_world.h"

namespace larder::reconcile {
namespace {

using api::Object;
using operator_test::FakeApi;
namespace resources = k8s::resources;

const k8s::Key kChat{"ml", "chat"};

struct ReconcilingPool : OperatorWorld {
  Done once() { return reconciler.reconcile(kChat); }
  // Like the controller.
  int settle() {
    for (int round = 1; round < 6; ++round)
      if (const Done done = once(); done.status.ok() && done.again.count() != 1000) return round;
    return 6;
  }
  std::string ready() const { return condition(resources::kPools, "chat", "Ready"); }

  std::map<std::string, LarderdAnswer> answers;
  std::optional<PoolSums> told;
  base::ManualClock clock;
  PoolReconciler reconciler{
      world,
      [this](const std::vector<PodView>&) {
        return Heard{answers, {}};
      },
      [this](const k8s::Key&, const std::optional<PoolSums>& sums, bool) { told = sums; }, clock};
};

TEST(PoolReconcilerTest, SidecarPoolHasAStatusAndNoObjects) {
  ReconcilingPool run;
  run.pool("chat", R"({"memory": {"size": "1Gi"}})");
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.ready(), "True NoPods");
  EXPECT_TRUE(run.api.all(resources::kDaemonSets).empty() &&
              run.api.all(resources::kConfigMaps).empty());
  run.api.forget_calls();
  run.now = "2026-02-01T00:00:00Z";
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.api.writes(), 0U);
}

// The steps: memory_freeing_test.cc.
TEST(PoolReconcilerTest, NodePoolHasItsDaemonSetUntilDeletion) {
  ReconcilingPool run;
  run.pool("chat", kNode);
  ASSERT_EQ(run.settle(), 1);
  const auto set = run.api.find(resources::kDaemonSets, "ml", "larder-chat");
  ASSERT_TRUE(set);
  EXPECT_TRUE(run.api.find(resources::kConfigMaps, "ml", "larder-chat"));
  run.api.forget_calls();
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.api.writes(), 0U);
  run.api.as_user(
      resources::kPools,
      {{"metadata", {{"name", "chat"}, {"namespace", "ml"}, {"finalizers", Object::array()}}}});
  run.api.delete_as_user(resources::kPools, "ml", "chat");
  ASSERT_EQ(run.settle(), 1);
  EXPECT_FALSE(run.told);
  EXPECT_EQ(run.api.collect_garbage(), 2U);
}

TEST(PoolReconcilerTest, PodsAreCountedAndSummed) {
  ReconcilingPool run;
  run.pool("chat", R"({"memory": {"size": "1Gi"}})");
  for (int i = 0; i < 3; ++i) {
    Object one = pod({.name = "chat-" + std::to_string(i), .ready = i < 2});
    run.api.as_user(resources::kPods, one);
  }
  run.api.as_user(resources::kPods, pod({.name = "other", .pool = "code"}));
  run.api.as_user(resources::kPods, pod({.name = "over", .phase = "Succeeded"}));
  const std::string uid =
      api::text_at(*run.api.find(resources::kPods, "ml", "chat-0"), "metadata.uid");
  run.answers[uid].capacity_bytes = 1ULL << 30;
  run.answers[uid].used_bytes = 1ULL << 29;
  ASSERT_EQ(run.settle(), 1);
  const Object status = run.status(resources::kPools, "chat");
  EXPECT_EQ(status["pods"]["total"], 3);
  EXPECT_EQ(status["pods"]["attached"], 2);
  EXPECT_EQ(status["memory"]["text"], "512Mi/1Gi");
  EXPECT_EQ(status["pods"]["needRestart"], 3);  // their hash is "h"
  EXPECT_EQ(run.condition(resources::kPools, "chat", "PodsUpToDate"), "False RestartNeeded");
  ASSERT_TRUE(run.told);
  EXPECT_EQ(run.told->attached, 2U);
}

// Engines of a node's larderd are other pods: the pods are told apart, and counted if only a
// restart changes their settings.
// covers F-251
TEST(PoolReconcilerTest, NodeEnginesAreComparedWithTheSpec) {
  ReconcilingPool run;
  run.pool("chat", kNode);
  const api::CachePool parsed = *api::parse_pool(*run.api.find(resources::kPools, "ml", "chat"));
  Object engine =
      pod({.name = "engine", .restart_hash = desired::engine_hash(parsed, run.world.defaults)});
  engine["metadata"]["annotations"][std::string(api::kInjectedAnnotation)] = "1/chat";
  engine["spec"].erase("initContainers");
  run.api.as_user(resources::kPods, engine);
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.condition(resources::kPools, "chat", "PodsUpToDate"), "True UpToDate");
  run.pool("chat", R"({"chunkTokens": 512})");
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.condition(resources::kPools, "chat", "PodsUpToDate"), "False RestartNeeded");
  EXPECT_EQ(run.status(resources::kPools, "chat")["pods"],
            Object::parse(R"({"total": 0, "attached": 0, "needRestart": 1})"));
}

// A backend deleted by mistake, and one stored under an older schema: running pods go on, and are
// compared once the backend is back.
// covers F-254
TEST(PoolReconcilerTest, UnreadableBackendRestartsNoPod) {
  constexpr const char* kBackend = R"({"endpoints": ["redis:6379"]})";
  ReconcilingPool run;
  run.pool("chat", R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "cache"}})");
  run.backend("cache", kBackend);
  const auto put = [&](const char* name) {
    const api::CachePool pool = *api::parse_pool(*run.api.find(resources::kPools, "ml", "chat"));
    const auto object = run.api.find(resources::kBackends, "ml", "cache");
    std::optional<api::CacheBackend> backend;
    if (object) backend = *api::parse_backend(*object);
    run.api.as_user(resources::kPods,
                    pod({.name = name,
                         .restart_hash = desired::restart_hash(pool, backend, run.world.defaults),
                         .config = desired::larderd_config(pool, backend)}));
  };
  put("with");
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.condition(resources::kPools, "chat", "PodsUpToDate"), "True UpToDate");

  run.backend("cache", R"({"mode": "Sentinel"})");  // without master: no spec that could be used
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.condition(resources::kPools, "chat", "PodsUpToDate"), "Unknown BackendNotRead");
  run.api.delete_as_user(resources::kBackends, "ml", "cache");
  put("without");
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.condition(resources::kPools, "chat", "PodsUpToDate"), "Unknown BackendNotRead");
  EXPECT_EQ(run.status(resources::kPools, "chat")["pods"]["needRestart"], 0);
  // which the pod without a backend can be told from
  run.pool("chat", R"({"memory": {"size": "2Gi"}})");
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.status(resources::kPools, "chat")["pods"]["needRestart"], 1);
  run.pool("chat", R"({"memory": {"size": "1Gi"}})");

  run.backend("cache", kBackend);
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.condition(resources::kPools, "chat", "PodsUpToDate"), "False RestartNeeded");
  EXPECT_EQ(run.status(resources::kPools, "chat")["pods"]["needRestart"], 1)
      << "the one that was made without it";
}

// covers F-254
TEST(PoolReconcilerTest, UnreadableBackendRollsNoNode) {
  constexpr const char* kBackend = R"({"endpoints": ["redis:6379"]})";
  ReconcilingPool run;
  run.pool("chat",
           R"({"placement": "Node", "memory": {"size": "1Gi"}, "backendRef": {"name": "cache"}})");
  const auto pods_wanted = [&] {
    return api::at(*run.api.find(resources::kDaemonSets, "ml", "larder-chat"), "spec.template");
  };
  ASSERT_EQ(run.settle(), 1);  // it never had its backend: made without, and follows the pool
  const Object first = pods_wanted();
  run.pool("chat", R"({"memory": {"size": "2Gi"}})");
  ASSERT_EQ(run.settle(), 1);
  EXPECT_NE(pods_wanted(), first);

  run.backend("cache", kBackend);
  ASSERT_EQ(run.settle(), 1);
  run.api.forget_calls();
  run.api.delete_as_user(resources::kBackends, "ml", "cache");
  ASSERT_EQ(run.settle(), 1);
  run.backend("cache", R"({"mode": "Sentinel"})");
  ASSERT_EQ(run.settle(), 1);
  for (const FakeApi::Call& call : run.api.calls())
    EXPECT_NE(call.plural, "daemonsets") << call.verb;
  EXPECT_EQ(run.condition(resources::kPools, "chat", "ObjectsApplied"), "True Kept");
  run.backend("cache", R"({"mode": "Standalone", "endpoints": ["redis:6379"]})");
  ASSERT_EQ(run.settle(), 1);
  for (const FakeApi::Call& call : run.api.calls())
    EXPECT_NE(call.plural, "daemonsets") << call.verb;
  EXPECT_EQ(run.condition(resources::kPools, "chat", "ObjectsApplied"), "True Applied");
}

// A changed pool reaches running pods as far as larderd takes changes over, and no further.
TEST(PoolReconcilerTest, RunningPodsGetLiveSettings) {
  ReconcilingPool run;
  const Object pool =
      run.pool("chat", R"({"memory": {"size": "1Gi"}, "disk": {"size": "2Gi", "write": "back"}})");
  const api::CachePool parsed = *api::parse_pool(*run.api.find(resources::kPools, "ml", "chat"));
  const std::string hash = desired::restart_hash(parsed, std::nullopt, run.world.defaults);
  const std::string config = desired::larderd_config(parsed, std::nullopt);
  run.api.as_user(resources::kPods, pod({.name = "new", .restart_hash = hash, .config = config}));
  run.api.as_user(resources::kPods,
                  pod({.name = "old", .restart_hash = "older", .config = "older"}));
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(*api::annotation(*run.api.find(resources::kPods, "ml", "new"), api::kConfigAnnotation),
            config);

  run.pool("chat", R"({"disk": {"write": "through"}})");
  run.api.forget_calls();
  ASSERT_EQ(run.settle(), 1);
  const std::string now =
      *api::annotation(*run.api.find(resources::kPods, "ml", "new"), api::kConfigAnnotation);
  EXPECT_NE(now.find("through"), std::string::npos);
  EXPECT_EQ(*api::annotation(*run.api.find(resources::kPods, "ml", "old"), api::kConfigAnnotation),
            "older");
  EXPECT_EQ(*api::annotation(*run.api.find(resources::kPods, "ml", "new"), "theirs"),
            "something long");
  std::size_t merges = 0;
  for (const FakeApi::Call& call : run.api.calls()) merges += call.verb == "merge" ? 1 : 0;
  EXPECT_EQ(merges, 1U);
  EXPECT_EQ(run.status(resources::kPools, "chat")["pods"]["needRestart"], 1);
}

// covers F-225
TEST(PoolReconcilerTest, ManyChangedPodsAreLoggedTogether) {
  ReconcilingPool run;
  run.pool("chat", R"({"memory": {"size": "1Gi"}})");
  const api::CachePool parsed = *api::parse_pool(*run.api.find(resources::kPools, "ml", "chat"));
  const std::string hash = desired::restart_hash(parsed, std::nullopt, run.world.defaults);
  for (int i = 0; i < 100; ++i)
    run.api.as_user(
        resources::kPods,
        pod({.name = "pod-" + std::to_string(i), .restart_hash = hash, .config = "another"}));
  base::set_log_level(base::LogLevel::kInfo);
  base::tell_all_left_out();  // of other tests
  testing::internal::CaptureStderr();
  ASSERT_EQ(run.settle(), 1);
  const std::string log = testing::internal::GetCapturedStderr();
  base::set_log_level(base::LogLevel::kError);
  std::size_t told = 0;
  for (std::size_t at = 0; (at = log.find("changed configuration", at)) != std::string::npos; ++at)
    ++told;
  EXPECT_EQ(told, 1U) << log;
}

TEST(PoolReconcilerTest, PodDeletedMeanwhileIsNoFailure) {
  ReconcilingPool run;
  run.pool("chat", R"({"memory": {"size": "1Gi"}})");
  const api::CachePool parsed = *api::parse_pool(*run.api.find(resources::kPools, "ml", "chat"));
  run.api.as_user(
      resources::kPods,
      pod({.restart_hash = desired::restart_hash(parsed, std::nullopt, run.world.defaults)}));
  run.pods.freeze();
  run.api.delete_as_user(resources::kPods, "ml", "chat-1");
  EXPECT_TRUE(run.once().status.ok());
  run.api.as_user(resources::kPods, pod({.config = "another pod of this name"}));
  EXPECT_TRUE(run.once().status.ok());
  EXPECT_EQ(
      *api::annotation(*run.api.find(resources::kPods, "ml", "chat-1"), api::kConfigAnnotation),
      "another pod of this name");
}

TEST(PoolReconcilerTest, ProblemsAreReportedInTheStatus) {
  ReconcilingPool run;
  run.pool("chat", R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "cache"}})");
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.ready(), "False NoSuchBackend");
  run.backend("cache", R"({"endpoints": ["redis:6379"]})");
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.condition(resources::kPools, "chat", "BackendReady"), "Unknown NotChecked");
  run.pool("chat", R"({"memory": {"size": "much"}})");
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.ready(), "False Invalid");
}

TEST(PoolReconcilerTest, RefusedCallIsReportedAndRetried) {
  ReconcilingPool run;
  run.pool("chat", kNode);
  run.api.set_failures([](const FakeApi::Call& call) -> std::optional<FakeApi::Failure> {
    if (call.verb == "apply" && call.plural == "daemonsets")
      return FakeApi::Failure{Status(Code::kPermissionDenied, "forbidden")};
    return std::nullopt;
  });
  EXPECT_FALSE(run.once().status.ok());
  EXPECT_EQ(run.ready(), "False Refused");
  run.api.set_failures(nullptr);
  ASSERT_EQ(run.settle(), 1);
  EXPECT_EQ(run.condition(resources::kPools, "chat", "ObjectsApplied"), "True Applied");
}

TEST(PoolReconcilerTest, PodsWaitingForPagesReportFreePagesOfNodes) {
  ReconcilingPool run;
  run.pool("chat", R"({"memory": {"size": "1Gi", "hugepages": "2Mi"}})");
  Object waiting = pod({.ip = "", .phase = "Pending", .ready = false});
  waiting["status"]["conditions"] = {{{"type", "PodScheduled"},
                                      {"status", "False"},
                                      {"message", "0/1 nodes: Insufficient hugepages-2Mi"}}};
  run.api.as_user(resources::kPods, waiting);
  run.api.as_user({"", "v1", "nodes", "Node", false},
                  {{"metadata", {{"name", "node-a"}}},
                   {"status", {{"allocatable", {{"hugepages-2Mi", "64Mi"}}}}}});
  const Done done = run.once();
  EXPECT_GT(done.again.count(), 1000);
  EXPECT_EQ(run.condition(resources::kPools, "chat", "HugepagesMissing"), "True NotEnough");
  std::string message;
  const Object status = run.status(resources::kPools, "chat");
  for (const Object& one : status["conditions"])
    if (one["type"] == "HugepagesMissing") message = one["message"];
  EXPECT_NE(message.find("node-a 32"), std::string::npos) << message;
}

// Object and owner, under keys: by the text alone no search of the logs finds all lines of one
// pool.
TEST(PoolReconcilerTest, ActionsAreLoggedWithObjectKeys) {
  ReconcilingPool run;
  run.pool("chat", kNode);
  base::set_log_level(base::LogLevel::kInfo);
  base::set_log_format(base::LogFormat::kJson);
  base::tell_all_left_out();  // of other tests
  testing::internal::CaptureStderr();
  run.settle();
  std::istringstream lines(testing::internal::GetCapturedStderr());
  base::set_log_level(base::LogLevel::kError);
  base::set_log_format(base::LogFormat::kText);
  std::set<std::string> said;
  for (std::string line; std::getline(lines, line);) {
    const Object record = Object::parse(line);
    const auto word = [&](const char* key) { return api::text_at(record, key); };
    said.insert(word("kind") + " " + word("namespace") + "/" + word("name") + " of " +
                word("owner_kind") + " " + word("owner"));
  }
  EXPECT_EQ(said, (std::set<std::string>{"ConfigMap ml/larder-chat of CachePool chat",
                                         "DaemonSet ml/larder-chat of CachePool chat"}));
}

// The same properties as children_test.cc, over everything that a reconcile does with a real pool.
TEST(PoolReconcilerTest, ConvergesFromEveryPartialState) {
  constexpr const char* kChanged =
      R"({"placement": "Node", "memory": {"size": "2Gi"}, "node": {"nodeSelector": {"gpu": )"
      R"("yes"}}})";
  const auto state = [](const ReconcilingPool& run) {
    std::vector<Object> all;
    for (const k8s::Resource* kind :
         {&resources::kPools, &resources::kDaemonSets, &resources::kConfigMaps})
      for (Object one : run.api.all(*kind)) {
        for (const char* key : {"uid", "resourceVersion", "generation"}) one["metadata"].erase(key);
        all.push_back(std::move(one));
      }
    return all;
  };
  ReconcilingPool reference;
  reference.pool("chat", kNode);
  ASSERT_EQ(reference.settle(), 1);
  reference.pool("chat", kChanged);
  reference.api.forget_calls();
  ASSERT_EQ(reference.settle(), 1);
  const std::size_t calls = reference.api.calls().size();
  ASSERT_GE(calls, 3U);
  for (std::size_t life = 0; life < 2 * calls; ++life) {
    ReconcilingPool run;
    run.pool("chat", kNode);
    ASSERT_EQ(run.settle(), 1);
    run.pool("chat", kChanged);
    std::size_t left = life / 2;
    run.api.set_failures([&](const FakeApi::Call&) -> std::optional<FakeApi::Failure> {
      if (left == 0) return FakeApi::Failure{Status(Code::kUnavailable, "dead")};
      return --left == 0 && life % 2 == 1
                 ? std::optional(FakeApi::Failure{Status(Code::kUnavailable, "dead"), true})
                 : std::nullopt;
    });
    run.once();
    run.api.set_failures(nullptr);
    ASSERT_LE(run.settle(), 5);
    EXPECT_EQ(state(run), state(reference)) << "dead after call " << life / 2;
    run.api.forget_calls();
    ASSERT_EQ(run.settle(), 1);
    EXPECT_EQ(run.api.writes(), 0U);
  }
}

}  // namespace
}  // namespace larder::reconcile
