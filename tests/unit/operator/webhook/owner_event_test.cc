#include "operator/webhook/owner_event.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sidecar/base/log.h"

namespace larder::webhook {
namespace {

// `why`, "chat" and its uid, of namespace "ml", in review.h's form.
std::optional<k8s::Event> event_of(const api::Object& pod, const std::string& why = "why",
                                   const std::string& pool = "chat",
                                   const std::string& pool_uid = "u-chat") {
  return left_alone_event({pod, "ml", pool, pool_uid, why, Refusal::kPod, "10.0.0.7"});
}

api::Object owner(const std::string& name, bool controller) {
  return {{"apiVersion", "apps/v1"},
          {"kind", "ReplicaSet"},
          {"name", name},
          {"uid", "u-" + name},
          {"controller", controller}};
}

TEST(OwnerEventTest, EventIsOnTheController) {
  const api::Object pod = {
      {"metadata", {{"ownerReferences", {owner("a", false), owner("b", true)}}}}};
  const std::optional<k8s::Event> event = event_of(pod, "no engine: name it");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->regarding, (api::Object{{"apiVersion", "apps/v1"},
                                           {"kind", "ReplicaSet"},
                                           {"namespace", "ml"},
                                           {"name", "b"},
                                           {"uid", "u-b"}}));
  EXPECT_EQ(event->type, "Warning");
  EXPECT_EQ(event->reason, "NotInjected");
  EXPECT_EQ(event->note, "no engine: name it");
}

TEST(OwnerEventTest, EventOfAPodWithoutOwnerIsOnThePod) {
  const std::optional<k8s::Event> event = event_of({{"metadata", {{"name", "bare"}}}});
  ASSERT_TRUE(event);
  EXPECT_EQ(event->regarding["kind"], "Pod");
  EXPECT_EQ(event->regarding["name"], "bare");
  EXPECT_FALSE(event->regarding.contains("uid")) << "the pool's is not the pod's";
}

// A stranger wrote the name.
TEST(OwnerEventTest, MalformedOwnersYieldNoEvent) {
  for (const api::Object& owners :
       {api::Object(nullptr), api::Object("x"), api::Object::array({1, "x", nullptr}),
        api::Object::array({{{"kind", "A"}}}),
        api::Object::array({owner(std::string(5000, 'x'), true)}), api::Object::object()})
    EXPECT_FALSE(
        event_of({{"metadata", {{"ownerReferences", owners}, {"generateName", "x-"}}}}, "why", ""))
        << owners;
  EXPECT_FALSE(event_of({{"metadata", {{"generateName", "x-"}}}}, "why", std::string(5000, 'x')));
  EXPECT_FALSE(event_of({}, "why", ""));
}

// `kubectl create` of a pod with a generateName: neither the pod nor an owner can be named yet.
TEST(OwnerEventTest, EventWithoutOwnerAndNameIsOnThePool) {
  // its namespace asked: no annotation names the pool
  const api::Object pod = {{"metadata", {{"generateName", "vllm-"}}}};
  std::optional<k8s::Event> event = event_of(pod);
  ASSERT_TRUE(event);
  api::Object pool{{"apiVersion", "larder.dev/v1alpha1"},
                   {"kind", "CachePool"},
                   {"namespace", "ml"},
                   {"name", "chat"}};
  EXPECT_EQ(event->note, "pod vllm-*: why");
  // By its uid `kubectl describe` finds the Event.
  pool["uid"] = "u-chat";
  EXPECT_EQ(event->regarding, pool);
  event = event_of(pod, "no such pool", "chat", "");
  ASSERT_TRUE(event);
  pool.erase("uid");
  EXPECT_EQ(event->regarding, pool);
}

// With keys for a search of the log, whatever a stranger wrote.
TEST(OwnerEventTest, EventIsLoggedWithItsKeys) {
  base::set_log_format(base::LogFormat::kJson);
  testing::internal::CaptureStderr();
  log_left_alone({{{"metadata", {{"generateName", "vllm-"}}}},
                  "ml",
                  "chat",
                  "u-chat",
                  "why",
                  Refusal::kPod,
                  "10.0.0.7"});
  const std::string line = testing::internal::GetCapturedStderr();
  base::set_log_format(base::LogFormat::kText);
  const Result<api::Object> parsed = api::parse_json(line);
  ASSERT_TRUE(parsed.ok()) << line;
  for (const auto& [key, value] :
       {std::pair{"msg", "not injected: why"}, std::pair{"level", "warning"},
        std::pair{"namespace", "ml"}, std::pair{"pod", "vllm-*"}, std::pair{"cachepool", "chat"}})
    EXPECT_EQ(api::text_at(*parsed, key), value) << line;
}

// Any client that reaches the webhook may send reviews.
// covers F-244
TEST(OwnerEventTest, RepeatedAddressDoesNotFloodTheLog) {
  testing::internal::CaptureStderr();
  const auto log_one = [](const std::string& name, const char* from) {
    log_left_alone(
        {{{"metadata", {{"name", name}}}}, "ml", "chat", "", "why", Refusal::kPod, from});
  };
  for (int i = 0; i < 1000; ++i) log_one("pod-" + std::to_string(i), "10.0.0.8");
  log_one("honest", "10.0.0.9");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::ranges::count(log, '\n'), 4) << log;
  EXPECT_NE(log.find("pod=honest"), std::string::npos) << "another address has its own";
}

}  // namespace
}  // namespace larder::webhook
