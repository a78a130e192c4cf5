#include "operator/reconcile/plan.h"

#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "operator/reconcile/subset.h"

namespace larder::reconcile {
namespace {

using api::Object;
using k8s::ObjectPtr;

const Owner kOwner{"CachePool", "ml", "chat", "uid-1"};

Object owned_by(const Owner& owner) {
  return {{{"apiVersion", "larder.dev/v1alpha1"},
           {"kind", owner.kind},
           {"name", owner.name},
           {"uid", owner.uid},
           {"controller", true}}};
}

Object config_map(const std::string& name, const std::string& text) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata",
           {{"name", name},
            {"namespace", "ml"},
            {"labels", {{std::string(api::kManagedByLabel), api::kFieldManager}}},
            {"ownerReferences", owned_by(kOwner)}}},
          {"data", {{"larder.yaml", text}}}};
}

// The server's form after the apply.
ObjectPtr live(Object applied, const Object& changed = Object::object()) {
  applied["metadata"]["uid"] = "uid-of-" + api::name_of(applied);
  applied.merge_patch(changed);
  return std::make_shared<const Object>(std::move(applied));
}
ObjectPtr as_applied(const Object& wanted) {
  return live(plan(kOwner, {wanted}, {}).apply.at(0).object);
}

TEST(PlanTest, MissingObjectIsApplied) {
  const Plan first = plan(kOwner, {config_map("a", "1"), config_map("b", "2")}, {});
  ASSERT_EQ(first.apply.size(), 2U);
  EXPECT_EQ(api::name_of(first.apply[0].object), "a");
  EXPECT_EQ(first.apply[0].resource, k8s::resources::kConfigMaps);
  EXPECT_TRUE(first.remove.empty() && first.taken.empty() && !first.waiting);
}

TEST(PlanTest, UnchangedObjectIsNotApplied) {
  const Object wanted = config_map("a", "1");
  EXPECT_TRUE(plan(kOwner, {wanted}, {as_applied(wanted)}).empty());
  const ObjectPtr with_more = live(
      *as_applied(wanted),
      Object::parse(R"({"metadata": {"annotations": {"theirs": "x"}}, "data": {"more": "y"}})"));
  EXPECT_TRUE(plan(kOwner, {wanted}, {with_more}).empty());
}

TEST(PlanTest, ChangedObjectIsAppliedAgain) {
  const Object wanted = config_map("a", "1");
  const Plan drifted =
      plan(kOwner, {wanted},
           {live(*as_applied(wanted), Object::parse(R"({"data": {"larder.yaml": "2"}})"))});
  ASSERT_EQ(drifted.apply.size(), 1U);
  EXPECT_EQ(drifted.apply[0].why, "data.larder.yaml differs");
}

// A subset alone would miss the difference: the old field is still there.
TEST(PlanTest, RemovedFieldIsDetected) {
  Object before = config_map("a", "1");
  before["data"]["old.yaml"] = "x";
  ASSERT_FALSE(first_difference(*as_applied(before), config_map("a", "1")));
  EXPECT_EQ(plan(kOwner, {config_map("a", "1")}, {as_applied(before)}).apply.size(), 1U);
}

TEST(PlanTest, UnwantedOwnObjectIsRemoved) {
  const ObjectPtr ours = as_applied(config_map("old", "1"));
  Object unlabelled = *ours;
  unlabelled["metadata"].erase("labels");
  Object of_another = *ours;
  of_another["metadata"]["ownerReferences"][0]["uid"] = "uid-2";
  EXPECT_EQ(plan(kOwner, {}, {ours}).remove.size(), 1U);
  EXPECT_TRUE(plan(kOwner, {}, {live(unlabelled)}).empty());
  EXPECT_TRUE(plan(kOwner, {}, {live(of_another)}).empty());
  EXPECT_TRUE(plan(kOwner, {},
                   {live(*ours, Object::parse(R"({"metadata": {"deletionTimestamp": "now"}})"))})
                  .empty());
}

TEST(PlanTest, ForeignObjectIsKept) {
  Object theirs = config_map("a", "theirs");
  theirs["metadata"].erase("labels");
  theirs["metadata"].erase("ownerReferences");
  const Plan refused = plan(kOwner, {config_map("a", "1")}, {live(theirs)});
  EXPECT_TRUE(refused.empty());
  ASSERT_EQ(refused.taken.size(), 1U);
  EXPECT_EQ(refused.taken[0],
            "ConfigMap a exists already and does not belong to Larder: delete or rename the "
            "object, or give this CachePool another name");
  Object of_another = config_map("a", "1");
  of_another["metadata"]["ownerReferences"] = owned_by({"CachePool", "ml", "code", "uid-3"});
  EXPECT_EQ(plan(kOwner, {config_map("a", "1")}, {live(of_another)}).taken.size(), 1U);
}

// `kubectl delete --cascade=orphan` and made anew: the old objects go on.
TEST(PlanTest, OrphanedObjectIsAdopted) {
  Object orphan = *as_applied(config_map("a", "1"));
  orphan["metadata"].erase("ownerReferences");
  const Plan taken_over = plan(kOwner, {config_map("a", "1")}, {live(orphan)});
  ASSERT_EQ(taken_over.apply.size(), 1U);
  EXPECT_TRUE(taken_over.taken.empty());
}

TEST(PlanTest, ObjectBeingDeletedIsAwaited) {
  const ObjectPtr going = live(*as_applied(config_map("a", "1")),
                               Object::parse(R"({"metadata": {"deletionTimestamp": "now"}})"));
  const Plan waits = plan(kOwner, {config_map("a", "1")}, {going});
  EXPECT_TRUE(waits.empty() && waits.waiting);
  Object earlier = *as_applied(config_map("a", "1"));
  earlier["metadata"]["ownerReferences"] = owned_by({"CachePool", "ml", "chat", "uid-0"});
  const Plan removes = plan(kOwner, {config_map("a", "1")}, {live(earlier)});
  EXPECT_TRUE(removes.waiting && removes.apply.empty());
  EXPECT_EQ(removes.remove.size(), 1U);
}

}  // namespace
}  // namespace larder::reconcile
