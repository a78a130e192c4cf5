#include "operator/reconcile/pod_view.h"

#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "tests/unit/operator/reconcile/pods.h"

namespace larder::reconcile {
namespace {

using api::Object;

TEST(PodViewTest, PodFieldsAreRead) {
  Object seen = pod({});
  seen["metadata"]["uid"] = "u";
  const PodView view = view_of(seen);
  EXPECT_EQ(view.ns + "/" + view.name + " " + view.uid + " " + view.pool + " " + view.ip,
            "ml/chat-1 u chat 10.0.0.7");
  EXPECT_TRUE(view.has_larderd && view.running && view.ready && !view.over && answers(view));
  EXPECT_EQ(view.config + view.restart_hash, "ch");
}

TEST(PodViewTest, PodWithoutAddressOrReadinessIsNotQueried) {
  EXPECT_FALSE(answers(view_of(pod({.ip = ""}))));
  EXPECT_FALSE(answers(view_of(pod({.ready = false}))));
  EXPECT_FALSE(answers(view_of(pod({.phase = "Pending"}))));
  EXPECT_TRUE(view_of(pod({.phase = "Failed"})).over);
  Object on_host = pod({});
  on_host["spec"]["hostNetwork"] = true;
  EXPECT_FALSE(answers(view_of(on_host)));
  Object going = pod({});
  going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  EXPECT_FALSE(answers(view_of(going)));
  Object engine_of_node_pool = pod({});
  engine_of_node_pool["spec"].erase("initContainers");
  EXPECT_FALSE(view_of(engine_of_node_pool).has_larderd);
}

TEST(PodViewTest, ContainerTroublesAreFound) {
  Object seen = pod({.phase = "Pending", .ready = false});
  seen["status"]["initContainerStatuses"][0]["state"]["waiting"] = {{"reason", "ErrImagePull"},
                                                                    {"message", "not found"}};
  seen["status"]["initContainerStatuses"][0]["lastState"]["terminated"] = {{"reason", "OOMKilled"},
                                                                           {"exitCode", 137}};
  seen["status"]["conditions"] = {{{"type", "PodScheduled"},
                                   {"status", "False"},
                                   {"message", "0/1 nodes: Insufficient hugepages-2Mi"}}};
  const PodView view = view_of(seen);
  EXPECT_EQ(view.waiting + ": " + view.waiting_text, "ErrImagePull: not found");
  EXPECT_TRUE(view.killed_for_memory);
  EXPECT_EQ(view.unscheduled, "0/1 nodes: Insufficient hugepages-2Mi");
}

// Larderd's container begins when these have ended: trouble of these containers delays larderd's.
// Their image, which is larderd's, is the first to be pulled.
TEST(PodViewTest, TroubleOfEarlierInitContainerIsFound) {
  Object seen = pod({.phase = "Pending", .ready = false});
  Object& statuses = seen["status"]["initContainerStatuses"];
  for (const char* usual : {"ContainerCreating", "PodInitializing"}) {
    statuses[0]["state"] = {{"waiting", {{"reason", usual}}}};
    EXPECT_EQ(view_of(seen).waiting, "");
  }
  for (const std::string_view before : {api::kPayloadContainer, api::kFoldersContainer}) {
    Object trouble = seen;
    Object status = {
        {"name", before},
        {"state", {{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "not found"}}}}}};
    trouble["status"]["initContainerStatuses"] = Object::array({status, statuses[0]});
    for (int i = 0; i < 2; ++i, trim_pod(trouble)) {
      EXPECT_EQ(view_of(trouble).waiting + ": " + view_of(trouble).waiting_text,
                "ImagePullBackOff: not found");
      EXPECT_FALSE(view_of(trouble).ready);
    }
    status["state"]["waiting"] = {{"reason", "CrashLoopBackOff"},
                                  {"message", "back-off 10s restarting"}};
    status["lastState"] = {
        {"terminated",
         {{"exitCode", 1}, {"message", "larderctl: /dev/larder: Operation not permitted"}}}};
    trouble["status"]["initContainerStatuses"] = Object::array({status, statuses[0]});
    EXPECT_EQ(view_of(trouble).waiting_text, "larderctl: /dev/larder: Operation not permitted");
  }
}

TEST(PodViewTest, SucceededContainerIsCompleted) {
  Object seen = pod({});
  Object& larderd = seen["status"]["initContainerStatuses"][0];
  EXPECT_FALSE(view_of(seen).completed);
  larderd["lastState"]["terminated"] = {{"reason", "Error"}, {"exitCode", 1}};
  EXPECT_FALSE(view_of(seen).completed);
  larderd["lastState"]["terminated"] = {{"reason", "Completed"}, {"exitCode", 0}};
  seen["spec"]["nodeName"] = "node-a";
  for (int i = 0; i < 2; ++i, trim_pod(seen)) {
    EXPECT_TRUE(view_of(seen).completed);
    EXPECT_EQ(view_of(seen).node, "node-a");
  }
}

// The cached part says the same as the whole pod, and is a small part of the pod.
TEST(PodViewTest, TrimmedPodHasTheSameView) {
  Object seen = pod({});
  seen["metadata"]["uid"] = "u";
  seen["metadata"]["annotations"][std::string(api::kInjectedAnnotation)] = "1/chat";
  seen["status"]["initContainerStatuses"][0]["lastState"]["terminated"] = {{"reason", "OOMKilled"},
                                                                           {"exitCode", 137}};
  seen["status"]["conditions"] = {
      {{"type", "PodScheduled"}, {"status", "False"}, {"message", "why"}}};
  for (int i = 0; i < 30; ++i)
    seen["spec"]["containers"][0]["env"].push_back(
        {{"name", "E" + std::to_string(i)}, {"value", "v"}});
  Object small = seen;
  trim_pod(small);
  const PodView before = view_of(seen), after = view_of(small);
  EXPECT_EQ(before.name + before.uid + before.pool + before.ip + before.config +
                before.restart_hash + before.unscheduled,
            after.name + after.uid + after.pool + after.ip + after.config + after.restart_hash +
                after.unscheduled);
  EXPECT_TRUE(after.has_larderd && after.injected && after.ready && after.killed_for_memory);
  EXPECT_LT(small.dump().size(), seen.dump().size() / 2);
  Object twice = small;
  trim_pod(twice);
  EXPECT_EQ(twice, small);
}

TEST(PodViewTest, MalformedPodsAreHandled) {
  for (const char* text :
       {"null", "[]", "7", R"({"spec": [], "status": "x"})",
        R"({"status": {"containerStatuses": {"a": 1}, "conditions": 3}})",
        R"({"metadata": {"labels": [], "annotations": 7}, "spec": {"containers": "larder"}})"}) {
    Object strange = Object::parse(text);
    EXPECT_FALSE(view_of(strange).has_larderd) << text;
    trim_pod(strange);
    EXPECT_FALSE(view_of(strange).ready) << text;
  }
}

}  // namespace
}  // namespace larder::reconcile
