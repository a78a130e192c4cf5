#include "operator/webhook/owner_event.h"

#include <gtest/gtest.h>

namespace larder::webhook {
namespace {

api::Object owner(const std::string& name, bool controller) {
  return {{"apiVersion", "apps/v1"}, {"kind", "ReplicaSet"}, {"name", name}, {"uid", "u-" + name}, {"controller", controller}};
}

TEST(OwnerEventTest, ItIsOnTheController) {
  const api::Object pod = {{"metadata", {{"ownerReferences", {owner("a", false), owner("b", true)}}}}};
  const std::optional<k8s::Event> event = left_alone_event(pod, "ml", "no engine: name it");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->regarding,
            (api::Object{{"apiVersion", "apps/v1"}, {"kind", "ReplicaSet"}, {"namespace", "ml"}, {"name", "b"}, {"uid", "u-b"}}));
  EXPECT_EQ(event->type, "Warning");
  EXPECT_EQ(event->reason, "NotInjected");
  EXPECT_EQ(event->note, "no engine: name it");
}

TEST(OwnerEventTest, APodOfNobodyIsNamedItself) {
  const std::optional<k8s::Event> event = left_alone_event({{"metadata", {{"name", "bare"}}}}, "ml", "why");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->regarding["kind"], "Pod");
  EXPECT_EQ(event->regarding["name"], "bare");
}

// A stranger wrote it.
TEST(OwnerEventTest, WhatNamesNobodyIsNoEvent) {
  for (const api::Object& owners :
       {api::Object(nullptr), api::Object("x"), api::Object::array({1, "x", nullptr}), api::Object::array({{{"kind", "A"}}}),
        api::Object::array({owner(std::string(5000, 'x'), true)}), api::Object::object()})
    EXPECT_FALSE(left_alone_event({{"metadata", {{"ownerReferences", owners}, {"generateName", "x-"}}}}, "ml", "why")) << owners;
  EXPECT_FALSE(left_alone_event({}, "ml", "why"));
}

}  // namespace
}  // namespace larder::webhook
