#include <gtest/gtest.h>

#include "operator/k8s/event_folding.h"
#include "operator/k8s/event_recorder.h"
#include "sidecar/base/log.h"
#include "tests/unit/operator/fake_api.h"

namespace larder::k8s {
namespace {

using operator_test::FakeApi;
using Decision = EventFolding::Decision;

TEST(EventFoldingTest, RepeatedEventIncreasesTheCount) {
  EventFolding folding;
  const EventText text{"pod a", "Warning", "NotInjected", "Injecting", "no engine"};
  EXPECT_EQ(folding.take(text, "e1", 0), Decision::kCreate);
  EXPECT_FALSE(folding.next_ms());
  for (std::uint64_t at_ms = 1; at_ms <= 1'000; ++at_ms)
    EXPECT_EQ(folding.take(text, "e2", at_ms), Decision::kCounted);
  EXPECT_TRUE(folding.due(1'001).empty()) << "not yet";
  EXPECT_EQ(folding.next_ms(), EventFolding::kRecordCountMs);
  const auto counts = folding.due(EventFolding::kRecordCountMs);
  ASSERT_EQ(counts.size(), 1U);
  EXPECT_EQ(counts[0].id, "e1");
  EXPECT_EQ(counts[0].count, 1'001U);
  EXPECT_TRUE(folding.due(10 * EventFolding::kRecordCountMs).empty()) << "nothing new";
  EXPECT_EQ(folding.take(text, "e3", 20 * EventFolding::kSeriesMs), Decision::kCreate)
      << "another day's";
}

TEST(EventFoldingTest, EventsOfOneObjectAreRateLimited) {
  EventFolding folding;
  unsigned made = 0;
  for (unsigned i = 0; i < 100; ++i)
    if (folding.take({"pod a", "Warning", "R", "A", std::to_string(i)}, "e", i) ==
        Decision::kCreate)
      ++made;
  EXPECT_EQ(made, EventFolding::kMostOfOne);
  EXPECT_EQ(folding.take({"pod b", "Warning", "R", "A", "n"}, "e", 100), Decision::kCreate)
      << "others are heard";
  EXPECT_EQ(folding.take({"pod a", "Warning", "R", "A", "later"}, "e", EventFolding::kOneMs),
            Decision::kCreate);
}

TEST(EventFoldingTest, TableIsBounded) {
  EventFolding folding;
  for (unsigned i = 0; i < 5'000; ++i) {
    folding.take({"pod " + std::to_string(i), "Normal", "R", "A", "n"}, "e", i * 10);
    ASSERT_LE(folding.known(), EventFolding::kMostKnown);
  }
}

api::Object pool() {
  return {{"apiVersion", "larder.dev/v1alpha1"},
          {"kind", "CachePool"},
          {"metadata",
           {{"namespace", "ml"}, {"name", "chat"}, {"uid", "u1"}, {"labels", {{"a", "b"}}}}}};
}

TEST(EventRecorderTest, WritesTheEventFields) {
  FakeApi api;
  base::ManualClock clock;
  Metrics metrics;
  EventRecorder recorder(api, "operator-0", clock, metrics);
  recorder.record(
      {reference_to(pool()), "Warning", "HugepagesMissing", "Reconciling", "reserve 512 pages"});
  ASSERT_TRUE(recorder.drain(20'000));
  const auto events = api.all(resources::kEvents, "ml");
  ASSERT_EQ(events.size(), 1U);
  const api::Object& event = events[0];
  EXPECT_EQ(event["regarding"], (api::Object{{"apiVersion", "larder.dev/v1alpha1"},
                                             {"kind", "CachePool"},
                                             {"namespace", "ml"},
                                             {"name", "chat"},
                                             {"uid", "u1"}}));
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["reason"], "HugepagesMissing");
  EXPECT_EQ(event["action"], "Reconciling");
  EXPECT_EQ(event["note"], "reserve 512 pages");
  EXPECT_EQ(event["reportingController"], "larder-operator");
  EXPECT_EQ(event["reportingInstance"], "operator-0");
  EXPECT_TRUE(api::name_of(event).starts_with("chat."));
}

TEST(EventRecorderTest, RepeatsAreFoldedIntoOneWithACount) {
  FakeApi api;
  base::ManualClock clock;
  Metrics metrics;
  EventRecorder recorder(api, "operator-0", clock, metrics);
  const Event event{reference_to(pool()), "Warning", "R", "A", "the same"};
  for (int i = 0; i < 50; ++i) recorder.record(event);
  ASSERT_TRUE(recorder.drain(20'000));
  EXPECT_EQ(api.writes(), 1U);
  clock.advance_ms(EventFolding::kRecordCountMs);
  recorder.record({reference_to(pool()), "Normal", "Other", "A", "wakes the thread"});
  for (int waited = 0; waited < 2'000 && api.writes() < 3; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  int counted = 0;
  for (const api::Object& found : api.all(resources::kEvents, "ml"))
    counted += static_cast<int>(api::number_at(found, "series.count"));
  EXPECT_EQ(counted, 50);
}

// With keys for a search of the log: of the Event's object, not of the Event.
TEST(EventRecorderTest, RefusedEventIsLoggedWithItsKeys) {
  FakeApi api;
  base::ManualClock clock;
  Metrics metrics;
  bool refused = false;
  api.set_failures([&](const FakeApi::Call& call) -> std::optional<FakeApi::Failure> {
    refused |= call.writes();
    return FakeApi::Failure{Status(Code::kPermissionDenied, "no right to it")};
  });
  base::set_log_format(base::LogFormat::kJson);
  testing::internal::CaptureStderr();
  {
    EventRecorder recorder(api, "operator-0", clock, metrics);
    recorder.record(
        {reference_to(pool()), "Warning", "HugepagesMissing", "Reconciling", "reserve 512 pages"});
    EXPECT_TRUE(recorder.drain(20'000));
  }
  const std::string line = testing::internal::GetCapturedStderr();
  base::set_log_format(base::LogFormat::kText);
  EXPECT_TRUE(refused);
  const Result<api::Object> parsed = api::parse_json(line);
  ASSERT_TRUE(parsed.ok()) << line;
  for (const auto& [key, value] :
       {std::pair{"level", "warning"}, std::pair{"kind", "CachePool"}, std::pair{"namespace", "ml"},
        std::pair{"name", "chat"}, std::pair{"reason", "HugepagesMissing"}})
    EXPECT_EQ(api::text_at(*parsed, key), value) << line;
}

TEST(EventRecorderTest, NeverBlocksAndIsBounded) {
  FakeApi api;
  base::ManualClock clock;
  Metrics metrics;
  std::atomic<bool> held = true;
  api.set_failures([&](const FakeApi::Call&) -> std::optional<FakeApi::Failure> {
    while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::nullopt;
  });
  EventRecorder recorder(api, "operator-0", clock, metrics);
  for (int i = 0; i < 2'000; ++i) {
    api::Object one = pool();
    one["metadata"]["name"] = "p" + std::to_string(i);
    recorder.record({reference_to(one), "Warning", "R", "A", "n"});
  }
  held = false;
  ASSERT_TRUE(recorder.drain(20'000));
  EXPECT_LE(api.all(resources::kEvents).size(), EventRecorder::kMostWaiting + 1);
  EXPECT_NE(metrics.text().find(R"(larder_operator_events_total{result="dropped"} 1)"),
            std::string::npos);
}

TEST(EventRecorderTest, FitsTheApiServerLimits) {
  FakeApi api;
  base::ManualClock clock;
  Metrics metrics;
  EventRecorder recorder(api, std::string(300, 'i'), clock, metrics);
  api::Object node{{"apiVersion", "v1"},
                   {"kind", "Node"},
                   {"metadata", {{"name", std::string(211, 'n') + std::string(42, '-')}}}};
  std::string note;
  while (note.size() < 3'000) note += "\xc3\xa4";
  recorder.record(
      {reference_to(node), "Normal", std::string(200, 'R'), std::string(200, 'A'), note});
  ASSERT_TRUE(recorder.drain(20'000));
  const auto events = api.all(resources::kEvents, "default");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_LE(api::name_of(events[0]).size(), 253U);
  EXPECT_NE(api::name_of(events[0])[211], '-') << "the cut is behind a letter";
  EXPECT_EQ(api::text_at(events[0], "reason").size(), 128U);
  EXPECT_EQ(api::text_at(events[0], "reportingInstance").size(), 128U);
  EXPECT_LE(api::text_at(events[0], "note").size(), 1024U);
  EXPECT_NO_THROW(std::ignore = events[0].dump()) << "cut between characters";
}

}  // namespace
}  // namespace larder::k8s
