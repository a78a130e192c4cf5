// The fake itself: a fault of the fake is a fault of the tests over it.
#include "tests/unit/operator/fake_api.h"

#include <gtest/gtest.h>

#include <thread>

namespace larder::operator_test {
namespace {

using api::Object;
using k8s::WatchEvent;
namespace resources = k8s::resources;

Object daemon_set(const std::string& image) {
  return {{"apiVersion", "apps/v1"},
          {"kind", "DaemonSet"},
          {"metadata", {{"name", "a"}, {"namespace", "n"}, {"labels", {{"ours", "yes"}}}}},
          {"spec",
           {{"template", {{"spec", {{"containers", {{{"name", "larder"}, {"image", image}}}}}}}}}}};
}

TEST(FakeApiTest, NoOpApplyKeepsTheVersion) {
  FakeApi api;
  const Result<Object> first = api.apply(resources::kDaemonSets, daemon_set("one"));
  const Result<Object> second = api.apply(resources::kDaemonSets, daemon_set("one"));
  const Result<Object> third = api.apply(resources::kDaemonSets, daemon_set("two"));
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ((*first)["metadata"]["generation"], 1);
  EXPECT_EQ((*third)["metadata"]["generation"], 2);
  EXPECT_NE((*first)["metadata"]["resourceVersion"], (*third)["metadata"]["resourceVersion"]);
  EXPECT_EQ(api.writes(), 3U);
}

TEST(FakeApiTest, ApplyRemovesItsFieldsAndKeepsForeignOnes) {
  FakeApi api;
  Object wanted = daemon_set("one");
  wanted["spec"]["template"]["spec"]["containers"][0]["env"] = {{{"name", "A"}, {"value", "1"}},
                                                                {{"name", "B"}, {"value", "2"}}};
  ASSERT_TRUE(api.apply(resources::kDaemonSets, wanted).ok());
  Object foreign = {
      {"metadata", {{"name", "a"}, {"namespace", "n"}, {"annotations", {{"theirs", "1"}}}}},
      {"spec", {{"paused", true}}}};
  api.as_user(resources::kDaemonSets, foreign);

  wanted["spec"]["template"]["spec"]["containers"][0]["env"].erase(0);
  wanted["metadata"].erase("labels");
  const Result<Object> now = api.apply(resources::kDaemonSets, wanted);
  ASSERT_TRUE(now.ok());
  EXPECT_EQ((*now)["spec"]["template"]["spec"]["containers"][0]["env"],
            Object::parse(R"([{"name": "B", "value": "2"}])"));
  EXPECT_FALSE((*now)["metadata"].contains("labels"));
  EXPECT_EQ((*now)["metadata"]["annotations"]["theirs"], "1");
  EXPECT_EQ((*now)["spec"]["paused"], true);
}

TEST(FakeApiTest, ForeignContainersStayAndUnwantedOnesAreRemoved) {
  FakeApi api;
  Object two = daemon_set("one");
  two["spec"]["template"]["spec"]["containers"].push_back({{"name", "second"}, {"image", "x"}});
  ASSERT_TRUE(api.apply(resources::kDaemonSets, two).ok());
  Object live = *api.find(resources::kDaemonSets, "n", "a");
  live["spec"]["template"]["spec"]["containers"].push_back({{"name", "theirs"}, {"image", "y"}});
  api.as_user(resources::kDaemonSets, live);
  const Result<Object> now = api.apply(resources::kDaemonSets, daemon_set("one"));
  ASSERT_TRUE(now.ok());
  const Object& containers = (*now)["spec"]["template"]["spec"]["containers"];
  ASSERT_EQ(containers.size(), 2U) << containers;
  EXPECT_EQ(containers[0]["name"], "larder");
  EXPECT_EQ(containers[1]["name"], "theirs");
}

TEST(FakeApiTest, StatusIsASubresource) {
  FakeApi api;
  Object pool = {{"metadata", {{"name", "p"}, {"namespace", "n"}}},
                 {"spec", {{"a", 1}}},
                 {"status", {{"lost", true}}}};
  ASSERT_TRUE(api.create(resources::kPools, pool).ok());
  EXPECT_FALSE(api.find(resources::kPools, "n", "p")->contains("status"));
  pool["spec"]["a"] = 2;
  pool["status"] = {{"pods", 3}};
  const Result<Object> now = api.apply(resources::kPools, pool, "status");
  ASSERT_TRUE(now.ok());
  EXPECT_EQ((*now)["spec"]["a"], 1);
  EXPECT_EQ((*now)["status"]["pods"], 3);
  EXPECT_EQ((*now)["metadata"]["generation"], 1);
  EXPECT_EQ(
      api.apply(resources::kPools, {{"metadata", {{"name", "q"}, {"namespace", "n"}}}}, "status")
          .status()
          .code(),
      Code::kNotFound);
}

TEST(FakeApiTest, OldVersionsAreRefused) {
  FakeApi api;
  const Object old =
      *api.create(resources::kLeases,
                  {{"metadata", {{"name", "l"}, {"namespace", "n"}}}, {"spec", {{"a", 1}}}});
  Object next = old;
  next["spec"]["a"] = 2;
  ASSERT_TRUE(api.replace(resources::kLeases, next).ok());
  EXPECT_EQ(api.replace(resources::kLeases, next).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(api.create(resources::kLeases, next).status().code(), Code::kAlreadyExists);
  EXPECT_EQ(api.remove(resources::kLeases, "n", "l", "another").code(), Code::kFailedPrecondition);
  EXPECT_TRUE(api.remove(resources::kLeases, "n", "l").ok());
  EXPECT_TRUE(api.remove(resources::kLeases, "n", "l").ok());
}

TEST(FakeApiTest, WatchFollowsTheSelector) {
  FakeApi api;
  Object object = {{"metadata", {{"name", "c"}, {"namespace", "n"}, {"labels", {{"ours", "yes"}}}}},
                   {"data", {{"a", "1"}}}};
  const std::string version = api.list(resources::kConfigMaps, {})->version;
  api.as_user(resources::kConfigMaps, object);
  object["data"]["a"] = "2";
  api.as_user(resources::kConfigMaps, object);
  object["metadata"]["labels"]["ours"] = "no";
  api.as_user(resources::kConfigMaps, object);
  std::vector<WatchEvent::Type> types;
  std::stop_source stop;
  const Status ended = api.watch(resources::kConfigMaps, {"n", "ours=yes", ""}, version,
                                 stop.get_token(), [&](WatchEvent event) {
                                   types.push_back(event.type);
                                   if (types.size() == 3) stop.request_stop();
                                 });
  EXPECT_TRUE(ended.ok());
  EXPECT_EQ(types, (std::vector{WatchEvent::Type::kAdded, WatchEvent::Type::kModified,
                                WatchEvent::Type::kDeleted}));
  api.forget_versions();
  EXPECT_EQ(api.watch(resources::kConfigMaps, {}, version, {}, [](const WatchEvent&) {}).code(),
            Code::kOutOfRange);
}

TEST(FakeApiTest, WatchWaitsForChangesAndEndsWhenCut) {
  FakeApi api;
  const std::string version = api.list(resources::kPods, {})->version;
  std::atomic<int> seen{0};
  std::jthread watcher([&](std::stop_token stop) {
    EXPECT_TRUE(
        api.watch(resources::kPods, {}, version, stop, [&](const WatchEvent&) { ++seen; }).ok());
  });
  api.as_user(resources::kPods, {{"metadata", {{"name", "p"}, {"namespace", "n"}}}});
  while (seen == 0) std::this_thread::yield();
  api.cut_watches();
  watcher.join();
  EXPECT_EQ(seen, 1);
}

TEST(FakeApiTest, OrphanIsRemovedWithItsLastOwner) {
  FakeApi api;
  const Object owner =
      api.as_user(resources::kPools, {{"metadata", {{"name", "p"}, {"namespace", "n"}}}});
  Object child = daemon_set("one");
  child["metadata"]["ownerReferences"] = {{{"uid", owner["metadata"]["uid"]}, {"name", "p"}}};
  ASSERT_TRUE(api.apply(resources::kDaemonSets, child).ok());
  EXPECT_EQ(api.collect_garbage(), 0U);
  api.delete_as_user(resources::kPools, "n", "p");
  EXPECT_EQ(api.collect_garbage(), 1U);
  EXPECT_FALSE(api.find(resources::kDaemonSets, "n", "a"));
}

TEST(FakeApiTest, FailuresOccurBeforeOrAfterTheWrite) {
  FakeApi api;
  bool done = false;
  api.set_failures([&](const FakeApi::Call& call) -> std::optional<FakeApi::Failure> {
    if (!call.writes()) return std::nullopt;
    return FakeApi::Failure{Status(Code::kUnavailable, "cut"), done};
  });
  EXPECT_FALSE(api.apply(resources::kDaemonSets, daemon_set("one")).ok());
  EXPECT_FALSE(api.find(resources::kDaemonSets, "n", "a"));
  done = true;
  EXPECT_FALSE(api.apply(resources::kDaemonSets, daemon_set("one")).ok());
  EXPECT_TRUE(api.find(resources::kDaemonSets, "n", "a"));
}

}  // namespace
}  // namespace larder::operator_test
