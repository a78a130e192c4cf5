// The life of a pool of placement Node from its first reconcile to its end: the finalizer, the
// freeing of its nodes' memory, and the release.
#include "operator/reconcile/memory_freeing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/desired/pool_objects.h"
#include "operator/reconcile/pool_reconciler.h"
#include "tests/unit/operator/reconcile/operator_world.h"

namespace larder::reconcile {
namespace {

using api::Object;
using operator_test::FakeApi;
using testing::HasSubstr;
namespace resources = k8s::resources;

constexpr const char* kWithDisk =
    R"({"placement": "Node", "memory": {"size": "1Gi"}, "disk": {"size": "2Gi"}})";

struct Ending : OperatorWorld {
  Ending() {
    world.tell = [this](const k8s::Event& event) {
      notes.push_back(event.reason + ": " + event.note);
    };
  }
  // A pool at work on so many nodes, which a user has deleted.
  void deleted_pool(int nodes, const char* spec = kNode) {
    pool("chat", spec);
    once();
    daemons(nodes, nodes);
    api.delete_as_user(resources::kPools, "ml", "chat");
  }
  Done once() { return reconciler.reconcile({"ml", "chat"}); }
  std::optional<Object> daemon_set() const {
    return api.find(resources::kDaemonSets, "ml", "larder-chat");
  }
  bool there() const { return api.find(resources::kPools, "ml", "chat").has_value(); }
  Object finalizers() const {
    return api::at(*api.find(resources::kPools, "ml", "chat"), "metadata.finalizers");
  }
  std::string restart_hash() const {
    const Object set = *daemon_set();
    return api::annotation(api::at(set, "spec.template"), api::kRestartAnnotation).value_or("");
  }
  // Like the DaemonSet's controller and `working` kubelets of `nodes`: one pod on each, of the
  // present template.
  void daemons(int nodes, int working) {
    const Object set = *daemon_set();
    api.as_user(resources::kDaemonSets,
                {{"metadata", {{"name", "larder-chat"}, {"namespace", "ml"}}},
                 {"status",
                  {{"observedGeneration", set["metadata"]["generation"]},
                   {"desiredNumberScheduled", nodes}}}});
    for (int i = 0; i < working; ++i) put_pod("node-" + std::to_string(i));
  }
  void put_pod(const std::string& node) {
    Object one = reconcile::pod({.name = "larder-on-" + node, .restart_hash = restart_hash()});
    one["spec"]["nodeName"] = node;
    Object& status = one["status"]["initContainerStatuses"][0];
    if (restart_hash() == desired::kFreeing)
      status["state"]["terminated"] = {{"exitCode", 0}, {"reason", "Completed"}};
    api.as_user(resources::kPods, one);
  }
  void refuse(const std::string& verb, const std::string& plural, Status with) {
    api.set_failures([=](const FakeApi::Call& call) -> std::optional<FakeApi::Failure> {
      if (call.verb == verb && call.plural == plural && call.subresource.empty())
        return FakeApi::Failure{with};
      return std::nullopt;
    });
  }

  base::ManualClock clock;
  std::vector<std::string> notes;
  PoolReconciler reconciler{world, [](const std::vector<PodView>&) { return Heard{}; },
                            [](const k8s::Key&, const std::optional<PoolSums>&, bool) {}, clock};
};

TEST(FreedOf, CountsSucceededPodsOfTheObservedGeneration) {
  const Object set =
      Object::parse(R"({"metadata": {"generation": 3}, "status": {"observedGeneration": 3, )"
                    R"("desiredNumberScheduled": 2}})");
  PodView done;
  done.node = "a";
  done.restart_hash = desired::kFreeing;
  done.completed = true;
  PodView old = done, failing = done;
  old.restart_hash = "h";  // larderd itself, which ended
  old.node = "b";
  failing.completed = false;
  failing.node = "c";
  EXPECT_FALSE(freed_of(set, {done, old, failing}).all());
  EXPECT_EQ(freed_of(set, {done, old, failing}).waits, (std::vector<std::string>{"b", "c"}));
  EXPECT_TRUE(freed_of(set, {done, done}).all());
  Object unseen = set;
  unseen["metadata"]["generation"] = 4;
  EXPECT_FALSE(freed_of(unseen, {done, done}).all());
  EXPECT_FALSE(freed_of(Object::parse(R"({"metadata": {"generation": 1}})"), {}).all())
      << "no status yet";
}

TEST(MemoryFreeingTest, OnlyNodePlacementIsHeld) {
  Ending run;
  Object pool{
      {"metadata", {{"name", "chat"}, {"namespace", "ml"}, {"finalizers", {"example.com/theirs"}}}},
      {"spec", Object::parse(kNode)}};
  run.api.as_user(resources::kPools, pool);
  run.once();
  EXPECT_EQ(run.finalizers(), Object({"example.com/theirs", api::kMemoryFinalizer}));
  run.api.forget_calls();
  run.once();
  EXPECT_EQ(run.api.writes(), 0U);

  Ending sidecars;
  sidecars.pool("chat", R"({"memory": {"size": "1Gi"}})");
  sidecars.once();
  EXPECT_TRUE(sidecars.finalizers().is_null());
}

// covers F-228
TEST(MemoryFreeingTest, PoolIsReleasedWhenAllNodesFreedMemory) {
  Ending run;
  run.deleted_pool(2);
  run.once();
  EXPECT_EQ(run.restart_hash(), desired::kFreeing);
  run.once();
  EXPECT_TRUE(run.there()) << "no controller has seen the changed DaemonSet yet";
  run.daemons(2, 1);
  EXPECT_GT(run.once().again.count(), 1000);
  EXPECT_TRUE(run.there());
  run.daemons(2, 2);
  EXPECT_TRUE(run.once().status.ok());
  EXPECT_FALSE(run.there());
  EXPECT_EQ(run.api.collect_garbage(), 2U);
  EXPECT_TRUE(run.notes.empty()) << run.notes.front();
  run.api.forget_calls();
  run.once();
  EXPECT_EQ(run.api.writes(), 0U);
}

TEST(MemoryFreeingTest, PoolWithoutNodesIsReleasedAtOnce) {
  Ending run;
  run.deleted_pool(0);
  run.once();
  run.daemons(0, 0);
  run.once();
  EXPECT_FALSE(run.there());
}

// covers F-229
TEST(MemoryFreeingTest, UnreachableNodeHoldsThePoolForAWhileAndIsReported) {
  Ending run;
  run.deleted_pool(2);
  run.once();
  // its kubelet does not report its end
  Object away = pod({.name = "larder-on-node-1", .restart_hash = "h"});
  away["spec"]["nodeName"] = "node-1";
  run.daemons(2, 1);
  run.api.as_user(resources::kPods, away);
  run.clock.advance_ms(static_cast<std::uint64_t>(MemoryFreeing::kPatience.count()) - 1);
  EXPECT_EQ(run.once().again.count(), 1);
  EXPECT_TRUE(run.there());
  run.clock.advance_ms(1);
  EXPECT_TRUE(run.once().status.ok());
  EXPECT_FALSE(run.there());
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_THAT(run.notes[0], HasSubstr("MemoryNotFreed: "));
  EXPECT_THAT(run.notes[0], HasSubstr("1 of 2 nodes have freed their memory, not node-1"));
  EXPECT_THAT(run.notes[0], HasSubstr("rm -r /dev/shm/larder/ml/chat"));
}

// Time counts from the first look, not from the deletion: the operator may have been away for an
// hour.
// covers F-230
TEST(MemoryFreeingTest, NextLeaderRestartsTheWait) {
  Ending run;
  run.deleted_pool(1);
  run.clock.advance_ms(3'600'000);
  run.once();
  EXPECT_TRUE(run.there());
  EXPECT_EQ(run.restart_hash(), desired::kFreeing);
}

// No object can be made in a deleted namespace, which must not wait for us.
// covers F-231
TEST(MemoryFreeingTest, DeletedNamespaceIsNotHeld) {
  Ending run;
  run.deleted_pool(1);
  run.api.delete_as_user(resources::kDaemonSets, "ml", "larder-chat");
  run.refuse("apply", "daemonsets", {Code::kPermissionDenied, "namespace ml is being terminated"});
  EXPECT_TRUE(run.once().status.ok());
  EXPECT_FALSE(run.there());
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_THAT(run.notes[0], HasSubstr("being terminated"));
}

// With --cascade=foreground the DaemonSet may go first.
TEST(MemoryFreeingTest, MissingDaemonSetIsRecreatedToFreeMemory) {
  Ending run;
  run.deleted_pool(1);
  run.api.delete_as_user(resources::kDaemonSets, "ml", "larder-chat");
  run.once();
  ASSERT_TRUE(run.daemon_set());
  EXPECT_EQ(run.restart_hash(), desired::kFreeing);
  run.daemons(1, 1);
  run.once();
  EXPECT_FALSE(run.there());
}

TEST(MemoryFreeingTest, OrphanedDaemonSetKeepsTheMemory) {
  for (const bool ours_first : {true, false}) {
    Ending run;
    run.pool("chat", kNode);
    run.once();
    const std::string hash = run.restart_hash();
    Object finalizers{api::kMemoryFinalizer};
    // the finalizer of --cascade=orphan; else the collector was first
    if (ours_first) finalizers.push_back("orphan");
    run.api.as_user(
        resources::kPools,
        {{"metadata", {{"name", "chat"}, {"namespace", "ml"}, {"finalizers", finalizers}}}});
    if (!ours_first)
      run.api.as_user(
          resources::kDaemonSets,
          {{"metadata",
            {{"name", "larder-chat"}, {"namespace", "ml"}, {"ownerReferences", Object::array()}}}});
    run.api.delete_as_user(resources::kPools, "ml", "chat");
    EXPECT_TRUE(run.once().status.ok());
    EXPECT_EQ(run.restart_hash(), hash) << "it goes on as it is";
    EXPECT_TRUE(!run.there() || run.finalizers() == Object({"orphan"}));
    EXPECT_TRUE(run.notes.empty());
  }
}

TEST(MemoryFreeingTest, ForeignFinalizersStay) {
  Ending run;
  run.deleted_pool(0);
  run.api.as_user(resources::kPools,
                  {{"metadata",
                    {{"name", "chat"},
                     {"namespace", "ml"},
                     {"finalizers", {api::kMemoryFinalizer, "example.com/theirs"}}}}});
  run.once();
  run.daemons(0, 0);
  run.once();
  EXPECT_EQ(run.finalizers(), Object({"example.com/theirs"}));
  run.api.forget_calls();
  run.once();
  EXPECT_EQ(run.api.writes(), 0U) << "no business of ours";
}

// A list of finalizers that another client changed meanwhile is not overwritten.
TEST(MemoryFreeingTest, ConcurrentlyChangedPoolIsReadAgain) {
  Ending run;
  run.pool("chat", kNode);
  run.pools.freeze();
  run.api.as_user(
      resources::kPools,
      {{"metadata",
        {{"name", "chat"}, {"namespace", "ml"}, {"finalizers", {"example.com/theirs"}}}}});
  const Done done = run.once();
  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.again.count(), 1000);
  EXPECT_FALSE(run.daemon_set()) << "no memory before it is held";
  run.pools.thaw();
  run.once();
  EXPECT_EQ(run.finalizers(), Object({"example.com/theirs", api::kMemoryFinalizer}));
  EXPECT_TRUE(run.daemon_set());
}

// Roles of an earlier release: the pool works, and an Event reports the roles.
TEST(MemoryFreeingTest, PoolWorksWithoutTheFinalizerPermission) {
  Ending run;
  run.pool("chat", kNode);
  run.refuse("merge", "cachepools", {Code::kPermissionDenied, "forbidden"});
  EXPECT_FALSE(run.once().status.ok());
  EXPECT_TRUE(run.daemon_set());
  EXPECT_EQ(run.condition(resources::kPools, "chat", "ObjectsApplied"), "True Applied");
}

TEST(MemoryFreeingTest, RecreatedPoolStartsFresh) {
  Ending run;
  run.deleted_pool(0);
  run.once();
  run.daemons(0, 0);
  run.once();
  ASSERT_FALSE(run.there());
  run.pool("chat", kNode);  // before the collector has seen anything
  for (int i = 0; i < 4 && (!run.daemon_set() || run.restart_hash() == desired::kFreeing); ++i)
    run.once();
  ASSERT_TRUE(run.daemon_set());
  EXPECT_NE(run.restart_hash(), desired::kFreeing);
  EXPECT_EQ(run.finalizers(), Object({api::kMemoryFinalizer}));
}

// The leader dies before or after any of its calls; the next one ends the work.
// covers F-230
TEST(MemoryFreeingTest, ReleaseCompletesFromEveryPartialState) {
  const auto ends = [](Ending& run) {
    for (int round = 0; round < 8 && run.there(); ++round) {
      run.once();
      if (run.daemon_set()) run.daemons(1, 1);
    }
    return !run.there();
  };
  Ending reference;
  reference.deleted_pool(1, kWithDisk);
  reference.api.forget_calls();
  ASSERT_TRUE(ends(reference));
  const std::size_t calls = reference.api.calls().size();
  ASSERT_GE(calls, 3U);
  for (std::size_t life = 0; life < 2 * calls; ++life) {
    Ending run;
    run.deleted_pool(1, kWithDisk);
    std::size_t left = life / 2;
    run.api.set_failures([&](const FakeApi::Call&) -> std::optional<FakeApi::Failure> {
      if (left == 0) return FakeApi::Failure{Status(Code::kUnavailable, "dead")};
      return --left == 0 && life % 2 == 1
                 ? std::optional(FakeApi::Failure{Status(Code::kUnavailable, "dead"), true})
                 : std::nullopt;
    });
    ends(run);
    run.api.set_failures(nullptr);
    EXPECT_TRUE(ends(run)) << "dead after call " << life / 2;
    EXPECT_EQ(run.api.collect_garbage(), 2U);
    EXPECT_TRUE(run.notes.empty());
  }
}

}  // namespace
}  // namespace larder::reconcile
