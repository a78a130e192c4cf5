#include "operator/reconcile/conditions.h"

#include <gtest/gtest.h>

namespace larder::reconcile {
namespace {

using api::Object;

TEST(ConditionsTest, TransitionTimeFollowsTheStatus) {
  const std::vector<Condition> first{{"Ready", Truth::kFalse, "Starting", "wait"}};
  const Object one = conditions_json(first, Object(), 1, "2026-01-01T00:00:00Z");
  EXPECT_EQ(one[0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(one[0]["status"], "False");

  const std::vector<Condition> other_reason{{"Ready", Truth::kFalse, "Broken", "look"}};
  const Object two = conditions_json(other_reason, one, 2, "2026-01-02T00:00:00Z");
  EXPECT_EQ(two[0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(two[0]["reason"], "Broken");
  EXPECT_EQ(two[0]["observedGeneration"], 2);

  const std::vector<Condition> ready{{"Ready", Truth::kTrue, "AllReady", ""}};
  EXPECT_EQ(conditions_json(ready, two, 2, "2026-01-03T00:00:00Z")[0]["lastTransitionTime"],
            "2026-01-03T00:00:00Z");
}

TEST(ConditionsTest, MalformedPreviousConditionsAreReplaced) {
  const std::vector<Condition> one{{"Ready", Truth::kUnknown, "R", ""}};
  for (const char* before :
       {"null", "7", "[1, \"x\", {\"type\": 3}]", R"([{"type": "Ready", "status": "Unknown"}])"})
    EXPECT_EQ(conditions_json(one, Object::parse(before), 1, "now")[0]["lastTransitionTime"], "now")
        << before;
  EXPECT_EQ(truth_of(Object::parse(R"({"status": {"conditions": "none"}})"), "Ready"),
            Truth::kUnknown);
}

TEST(ConditionsTest, MessagesAreBoundedAtCharacters) {
  std::string text;
  while (text.size() < 2 * kMostMessage) text += "\xc3\xa4";
  const std::string cut = bounded(text);
  EXPECT_LE(cut.size(), kMostMessage);
  EXPECT_NO_THROW(static_cast<void>(Object(cut).dump()));
  EXPECT_EQ(some_of({"a", "b", "c", "d", "e", "f", "g"}), "a, b, c, d, e and 2 more");
  EXPECT_EQ(some_of({"a"}), "a");
}

TEST(ConditionsTest, TimesUseTheKubernetesFormat) {
  EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(rfc3339(1795346553), "2026-11-22T11:22:33Z");
}

}  // namespace
}  // namespace larder::reconcile
