// From any state to the wanted one, over an API server in memory, by seeds. A failed seed replays
// exactly.
#include "operator/reconcile/children.h"

#include <gtest/gtest.h>

#include <random>

#include "operator/api/names.h"
#include "sidecar/base/log.h"
#include "tests/unit/operator/reconcile/child_caches.h"

namespace larder::reconcile {
namespace {

using api::Object;
using operator_test::FakeApi;

constexpr unsigned kSeeds = 300;
constexpr int kMostRounds = 5;

class Context {
 public:
  explicit Context(unsigned seed) : random_(seed), children_(api_) {
    base::set_log_level(base::LogLevel::kError);
    const Object pool = api_.as_user(k8s::resources::kPools,
                                     {{"metadata", {{"name", "chat"}, {"namespace", "ml"}}}});
    owner_ = {"CachePool", "ml", "chat", api::text_at(pool, "metadata.uid")};
    // The real server's addition: fields without a request.
    api_.set_defaulting([](Object& object) {
      if (api::text_at(object, "kind") == "DaemonSet")
        object["spec"].emplace("revisionHistoryLimit", 10);
    });
  }

  int number(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most)); }
  bool chance(int in) { return number(in) == 0; }

  Object wanted(const k8s::Resource& resource, const std::string& name) {
    Object object = {
        {"apiVersion", resource.group.empty() ? "v1" : resource.group + "/" + resource.version},
        {"kind", resource.kind},
        {"metadata",
         {{"name", name},
          {"namespace", "ml"},
          {"labels", {{std::string(api::kManagedByLabel), api::kFieldManager}}},
          {"ownerReferences",
           {{{"apiVersion", "larder.dev/v1alpha1"},
             {"kind", "CachePool"},
             {"name", "chat"},
             {"uid", owner_.uid},
             {"controller", true}}}}}}};
    if (resource.kind == "ConfigMap") {
      for (int i = number(4); i > 0; --i)
        object["data"]["k" + std::to_string(number(6))] = std::to_string(number(3));
      return object;
    }
    object["spec"]["updateStrategy"] = {{"type", chance(2) ? "RollingUpdate" : "OnDelete"}};
    Object& containers = object["spec"]["template"]["spec"]["containers"] = Object::array();
    for (int i = 1 + number(2); i > 0; --i) {
      Object container = {{"name", "c" + std::to_string(i)},
                          {"image", "image:" + std::to_string(number(3))}};
      for (int j = number(3); j > 0; --j)
        container["env"].push_back(
            {{"name", "E" + std::to_string(j)}, {"value", std::to_string(number(3))}});
      if (chance(2)) container["args"] = {std::to_string(number(3)), "b"};
      containers.push_back(std::move(container));
    }
    return object;
  }

  std::vector<Object> desired_objects() {
    std::vector<Object> all;
    for (const k8s::Resource& resource : owned_kinds())
      for (const char* name : {"larder-chat", "larder-other"})
        if (chance(2)) all.push_back(wanted(resource, name));
    return all;
  }

  Brought once(const std::vector<Object>& desired) {
    return bring(api_, children_.caches(), owner_, desired);
  }

  // Like the controller: again until a good end. Returns the number of rounds.
  int settle(const std::vector<Object>& desired) {
    for (int round = 1; round <= kMostRounds; ++round)
      if (const Brought brought = once(desired); brought.status.ok() && !brought.waiting)
        return round;
    return kMostRounds + 1;
  }

  // Our objects there, without the fields that every write changes.
  std::vector<Object> state() const {
    std::vector<Object> all;
    for (const k8s::Resource& resource : owned_kinds())
      for (Object object : api_.all(resource)) {
        for (const char* key : {"uid", "resourceVersion", "generation"})
          object["metadata"].erase(key);
        all.push_back(std::move(object));
      }
    return all;
  }

  FakeApi& api() { return api_; }
  FakeChildren& children() { return children_; }
  const Owner& owner() const { return owner_; }

 private:
  FakeApi api_;
  std::mt19937 random_;
  FakeChildren children_;
  Owner owner_;
};

TEST(ChildrenTest, ASecondPlanAfterApplyingIsEmpty) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Context world(seed);
    for (int change = 0; change < 3; ++change) {
      const std::vector<Object> desired = world.desired_objects();
      ASSERT_EQ(world.settle(desired), 1) << "seed " << seed;
      world.api().forget_calls();
      ASSERT_TRUE(world.once(desired).status.ok());
      EXPECT_EQ(world.api().writes(), 0U) << "seed " << seed;
    }
  }
}

TEST(ChildrenTest, ResultIsIndependentOfTheStartingState) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Context world(seed), fresh(seed + 1'000'000);
    const std::vector<Object> first = world.desired_objects(), second = world.desired_objects();
    ASSERT_EQ(world.settle(first), 1);
    ASSERT_EQ(world.settle(second), 1);
    ASSERT_EQ(fresh.owner().uid, world.owner().uid);
    ASSERT_EQ(fresh.settle(second), 1);
    EXPECT_EQ(world.state(), fresh.state()) << "seed " << seed;
  }
}

// A crash after every single call, done or not: the next life ends at the same state as without a
// crash.
TEST(ChildrenTest, ConvergesFromEveryPartialState) {
  std::size_t crashes = 0;
  for (unsigned seed = 0; seed < kSeeds / 10; ++seed) {
    Context reference(seed);
    const std::vector<Object> first = reference.desired_objects(),
                              second = reference.desired_objects();
    ASSERT_EQ(reference.settle(first), 1);
    reference.api().forget_calls();
    ASSERT_EQ(reference.settle(second), 1);
    const std::size_t calls = reference.api().calls().size();
    for (std::size_t life = 0; life < 2 * calls; ++life, ++crashes) {
      Context world(seed);
      ASSERT_EQ(world.settle(first), 1);
      std::size_t left = life / 2;
      world.api().set_failures([&](const FakeApi::Call&) -> std::optional<FakeApi::Failure> {
        if (left == 0) return FakeApi::Failure{Status(Code::kUnavailable, "dead")};
        return --left == 0 && life % 2 == 1
                   ? std::optional(FakeApi::Failure{Status(Code::kUnavailable, "dead"), true})
                   : std::nullopt;
      });
      world.once(second);
      world.api().set_failures(nullptr);
      ASSERT_LE(world.settle(second), kMostRounds);
      ASSERT_EQ(world.state(), reference.state())
          << "seed " << seed << ", dead after call " << life / 2;
    }
  }
  EXPECT_GT(crashes, 100U);
}

TEST(ChildrenTest, StaleCacheCostsOnlyExtraCalls) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Context world(seed), reference(seed);
    const std::vector<Object> first = world.desired_objects(), second = world.desired_objects();
    ASSERT_EQ(world.settle(first), 1);
    world.children().freeze();
    ASSERT_EQ(world.settle(second), 1);
    world.once(second);
    world.children().thaw();
    ASSERT_EQ(world.settle(second), 1);
    ASSERT_EQ(reference.settle(second), 1);
    EXPECT_EQ(world.state(), reference.state()) << "seed " << seed;
  }
}

TEST(ChildrenTest, DriftIsRepairedAndForeignFieldsSurvive) {
  int repaired = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Context world(seed);
    const std::vector<Object> desired = world.desired_objects();
    ASSERT_EQ(world.settle(desired), 1);
    if (desired.empty()) continue;
    const std::vector<Object> before = world.state();
    const Object& one =
        desired[static_cast<std::size_t>(world.number(static_cast<int>(desired.size())))];
    const k8s::Resource& resource = *owned_kind(one);
    const std::string name = api::name_of(one);
    if (world.chance(4)) {
      world.api().delete_as_user(resource, "ml", name);
      ASSERT_EQ(world.settle(desired), 1);
      EXPECT_EQ(world.state(), before) << "seed " << seed;
      continue;
    }
    Object change = {{"metadata",
                      {{"name", name},
                       {"namespace", "ml"},
                       {"annotations", {{"theirs.example/note", "kept"}}}}}};
    if (one.contains("spec"))
      change["spec"] = {{"updateStrategy", {{"type", "Broken"}}}, {"minReadySeconds", 7}};
    else
      change["metadata"]["labels"] = {{std::string(api::kManagedByLabel), "larder-operator"},
                                      {"theirs", "kept"}};
    world.api().as_user(resource, change);
    ASSERT_EQ(world.settle(desired), 1);
    const Object now = *world.api().find(resource, "ml", name);
    EXPECT_EQ(now["metadata"]["annotations"]["theirs.example/note"], "kept");
    if (one.contains("spec")) {
      EXPECT_EQ(now["spec"]["updateStrategy"], one["spec"]["updateStrategy"]) << "seed " << seed;
      EXPECT_EQ(now["spec"]["minReadySeconds"], 7);
      ++repaired;
    } else {
      EXPECT_EQ(now["metadata"]["labels"]["theirs"], "kept");
    }
  }
  EXPECT_GT(repaired, 50);
}

TEST(ChildrenTest, UnwantedObjectsArePrunedAndForeignObjectsStay) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Context world(seed);
    Object theirs = {{"apiVersion", "v1"},
                     {"kind", "ConfigMap"},
                     {"metadata", {{"name", "theirs"}, {"namespace", "ml"}}}};
    world.api().as_user(k8s::resources::kConfigMaps, theirs);
    theirs["metadata"] = {{"name", "larder-code"},
                          {"namespace", "ml"},
                          {"labels", {{std::string(api::kManagedByLabel), api::kFieldManager}}}};
    theirs["metadata"]["ownerReferences"] = {
        {{"kind", "CachePool"}, {"name", "code"}, {"uid", "another"}, {"controller", true}}};
    world.api().as_user(k8s::resources::kConfigMaps, theirs);
    ASSERT_EQ(world.settle(world.desired_objects()), 1);
    ASSERT_EQ(world.settle({}), 1);
    EXPECT_EQ(world.state().size(), 2U) << "seed " << seed;
  }
}

// The label alone shows our caches an object; an object without the label is another's, even under
// the wanted name.
TEST(ChildrenTest, UncachedObjectIsNotTakenFromItsOwner) {
  Context world(1);
  const Object wanted = world.wanted(k8s::resources::kConfigMaps, "larder-chat");
  const Object theirs = {{"apiVersion", "v1"},
                         {"kind", "ConfigMap"},
                         {"metadata", {{"name", "larder-chat"}, {"namespace", "ml"}}},
                         {"data", {{"mine", "1"}}}};
  world.api().as_user(k8s::resources::kConfigMaps, theirs);
  const Brought brought = world.once({wanted});
  EXPECT_TRUE(brought.status.ok());
  EXPECT_EQ(brought.taken.size(), 1U);
  EXPECT_EQ(world.api().writes(), 0U);
  world.api().delete_as_user(k8s::resources::kConfigMaps, "ml", "larder-chat");
  EXPECT_EQ(world.settle({wanted}), 1);
  EXPECT_TRUE(world.api().find(k8s::resources::kConfigMaps, "ml", "larder-chat"));
}

}  // namespace
}  // namespace larder::reconcile
