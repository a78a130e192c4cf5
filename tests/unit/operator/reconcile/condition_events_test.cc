#include "operator/reconcile/condition_events.h"

#include <gtest/gtest.h>

#include "tests/unit/operator/reconcile/operator_world.h"

namespace larder::reconcile {
namespace {

using api::Object;
namespace resources = k8s::resources;

Object status_of(const char* status, const char* reason) {
  return {{"conditions", Object::array({{{"type", "Ready"},
                                         {"status", status},
                                         {"reason", reason},
                                         {"message", "what to do"}}})}};
}

// "Warning NoSuchBackend"; "" for a condition without an Event.
std::string told(const Object& before, const Object& after) {
  const Object object{{"metadata", {{"name", "chat"}, {"namespace", "ml"}, {"uid", "u"}}},
                      {"status", before}};
  const std::optional<k8s::Event> event = event_of_change(resources::kPools, object, after);
  return event ? event->type + " " + event->reason : "";
}

TEST(ConditionEventsTest, FailureChangeAndRecoveryHaveEvents) {
  const Object good = status_of("True", "AllReady"), bad = status_of("False", "NoSuchBackend"),
               worse = status_of("False", "NotEnough"),
               unknown = status_of("Unknown", "NotChecked");
  EXPECT_EQ(told(good, bad), "Warning NoSuchBackend");
  EXPECT_EQ(told(Object(), bad), "Warning NoSuchBackend");
  EXPECT_EQ(told(bad, worse), "Warning NotEnough");
  EXPECT_EQ(told(bad, good), "Normal Ready");
  for (const auto& [before, after] :
       {std::pair{good, good}, {bad, bad}, {Object(), good}, {unknown, good}, {bad, unknown}})
    EXPECT_EQ(told(before, after), "") << before << after;
}

// Ready is True again while larderd of the pods is still starting: the message tells of the start,
// and the Event tells which trouble is over.
TEST(ConditionEventsTest, RecoveryNamesTheEndedProblem) {
  const Object object{{"metadata", {{"name", "chat"}, {"namespace", "ml"}}},
                      {"status", status_of("False", "NotScheduled")}};
  Object starting = status_of("True", "Starting");
  starting["conditions"][0]["message"] = "larderd is not ready yet";
  const std::optional<k8s::Event> event = event_of_change(resources::kPools, object, starting);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->note, "NotScheduled is over: larderd is not ready yet");
}

TEST(ConditionEventsTest, EventRefersToTheObject) {
  const Object object{{"metadata", {{"name", "chat"}, {"namespace", "ml"}, {"uid", "u"}}}};
  const std::optional<k8s::Event> event =
      event_of_change(resources::kPools, object, status_of("False", "Invalid"));
  ASSERT_TRUE(event);
  EXPECT_EQ(
      event->regarding,
      Object::parse(R"({"apiVersion": "larder.dev/v1alpha1", "kind": "CachePool", "name": "chat",
                                               "namespace": "ml", "uid": "u"})"));
  EXPECT_EQ(event->note, "what to do");
}

// With the status, and not after a failed write of the status: then the next reconcile writes the
// Event.
// covers F-255
TEST(ConditionEventsTest, EventsAreWrittenOnceWithTheStatus) {
  OperatorWorld run;
  std::vector<std::string> told;
  run.world.tell = [&](const k8s::Event& event) { told.push_back(event.reason); };
  run.pool("chat", R"({"memory": {"size": "1Gi"}})");
  const auto write = [&](const Object& status) {
    return write_status(run.world, resources::kPools,
                        *run.api.find(resources::kPools, "ml", "chat"), status);
  };
  run.api.set_failures([](const operator_test::FakeApi::Call& call) {
    return call.verb == "apply"
               ? std::optional(operator_test::FakeApi::Failure{{Code::kUnavailable, "away"}})
               : std::nullopt;
  });
  EXPECT_FALSE(write(status_of("False", "NoSuchBackend")).ok());
  EXPECT_TRUE(told.empty());
  run.api.set_failures(nullptr);
  EXPECT_TRUE(write(status_of("False", "NoSuchBackend")).ok());
  EXPECT_TRUE(write(status_of("False", "NoSuchBackend")).ok());
  EXPECT_EQ(told, std::vector<std::string>{"NoSuchBackend"});
}

}  // namespace
}  // namespace larder::reconcile
