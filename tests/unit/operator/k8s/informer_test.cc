#include "operator/k8s/informer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "sidecar/base/log_throttle.h"
#include "tests/eventually.h"
#include "tests/unit/operator/fake_api.h"
#include "tests/unit/operator/k8s/client_fixture.h"

namespace larder::k8s {
namespace {

using operator_test::FakeApi;

constexpr int kSoonMs = 20'000;

bool soon(const std::function<bool()>& holds) {
  return test::eventually(holds, kSoonMs, 5);
}

api::Object pod(const std::string& ns, const std::string& name, int value = 0) {
  return {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata", {{"namespace", ns}, {"name", name}, {"managedFields", {{{"manager", "x"}}}}}},
      {"spec", {{"value", value}, {"large", std::string(100, 'x')}}}};
}

// Names with "+", "~" or "-" in front: the informer's changes.
class Told {
 public:
  void add(const ObjectPtr& before, const ObjectPtr& after) {
    const std::lock_guard lock(mutex_);
    told_.push_back((!before ? "+" : !after ? "-" : "~") + api::name_of(after ? *after : *before));
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  bool has(const std::string& what) const { return std::ranges::count(all(), what) == 1; }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> told_;
};

Informing pods(Told& told) {
  return {resources::kPods,
          {},
          [](api::Object& object) {
            if (object.contains("spec")) object["spec"].erase("large");
          },
          [&told](const ObjectPtr& before, const ObjectPtr& after) { told.add(before, after); }};
}

TEST(InformerTest, ListsObjectsAndFollowsChanges) {
  FakeApi api;
  const base::MonotonicClock clock;
  api.as_user(resources::kPods, pod("ml", "a"));
  api.as_user(resources::kPods, pod("other", "b"));
  Told told;
  const auto informer = Informer::start(api, pods(told), clock);
  ASSERT_TRUE(informer->await_sync(kSoonMs));
  EXPECT_TRUE(informer->synced());
  EXPECT_EQ(informer->all().size(), 2U);
  EXPECT_EQ(informer->all("ml").size(), 1U);
  EXPECT_EQ(informer->all("m").size(), 0U);
  const ObjectPtr first = informer->find("ml", "a");
  ASSERT_TRUE(first);
  EXPECT_FALSE((*first)["metadata"].contains("managedFields"));
  EXPECT_FALSE((*first)["spec"].contains("large"));
  api.as_user(resources::kPods, pod("ml", "c"));
  api.as_user(resources::kPods, pod("ml", "a", 2));
  api.delete_as_user(resources::kPods, "other", "b");
  EXPECT_TRUE(soon([&] { return told.has("+c") && told.has("~a") && told.has("-b"); }));
  EXPECT_EQ(informer->find("other", "b"), nullptr);
  EXPECT_EQ((*informer->find("ml", "a"))["spec"]["value"], 2);
  EXPECT_EQ((*first)["spec"]["value"], 0) << "a reader keeps its objects";
}

TEST(InformerTest, CutsAndExpiryLoseAndRepeatNoEvent) {
  FakeApi api;
  const base::MonotonicClock clock;
  for (int i = 0; i < 20; ++i) api.as_user(resources::kPods, pod("ml", "p" + std::to_string(i)));
  Told told;
  const auto informer = Informer::start(api, pods(told), clock);
  ASSERT_TRUE(informer->await_sync(kSoonMs));
  for (int round = 0; round < 3; ++round) {
    if (round % 2 == 0)
      api.cut_watches();
    else
      api.forget_versions();
    api.as_user(resources::kPods, pod("ml", "new" + std::to_string(round)));
    api.delete_as_user(resources::kPods, "ml", "p" + std::to_string(round));
    EXPECT_TRUE(soon([&] {
      return told.has("+new" + std::to_string(round)) && told.has("-p" + std::to_string(round));
    })) << round;
  }
  EXPECT_EQ(told.all().size(), 20U + 6U);
  EXPECT_EQ(informer->all().size(), 20U);
}

TEST(InformerTest, IsNotSyncedBeforeTheFirstList) {
  FakeApi api;
  const base::MonotonicClock clock;
  std::atomic<bool> down = true;
  api.set_failures([&](const FakeApi::Call&) -> std::optional<FakeApi::Failure> {
    if (!down) return std::nullopt;
    return FakeApi::Failure{Status(Code::kUnavailable, "down")};
  });
  Told told;
  const auto informer = Informer::start(api, pods(told), clock);
  EXPECT_FALSE(informer->await_sync(50));
  EXPECT_FALSE(informer->synced());
  down = false;
  EXPECT_TRUE(informer->await_sync(kSoonMs)) << "also of nothing";
  EXPECT_TRUE(informer->all().empty());
}

// A role without the right, for as long as the operator runs.
// covers F-223
TEST(InformerTest, RepeatedFailureIsLoggedOnce) {
  FakeApi api;
  const base::MonotonicClock clock;
  api.set_failures([](const FakeApi::Call&) {
    return FakeApi::Failure{Status(Code::kPermissionDenied, "limitranges is forbidden")};
  });
  base::tell_all_left_out();  // of other tests
  testing::internal::CaptureStderr();
  Told told;
  const auto informer = Informer::start(api, pods(told), clock);
  EXPECT_TRUE(soon([&] { return api.calls().size() >= 3; }));
  const std::string log = testing::internal::GetCapturedStderr();
  const std::size_t first = log.find("is forbidden");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("is forbidden", first + 1), std::string::npos) << log;
}

Informing limits() {
  return {.resource = resources::kLimitRanges, .without = "pods are fitted without LimitRanges"};
}

TEST(InformerTest, PendingListIsAwaitedAndRefusedListIsNot) {
  FakeApi api;
  const base::MonotonicClock clock;
  std::atomic<bool> refused = false;
  api.set_failures([&](const FakeApi::Call&) {
    return FakeApi::Failure{refused ? Status(Code::kPermissionDenied, "403")
                                    : Status(Code::kUnavailable, "503")};
  });
  base::tell_all_left_out();  // of other tests
  testing::internal::CaptureStderr();
  const auto informer = Informer::start(api, limits(), clock);
  EXPECT_FALSE(informer->await_settled(50));
  refused = true;
  EXPECT_TRUE(informer->await_settled(kSoonMs));
  EXPECT_FALSE(informer->synced());
  EXPECT_NE(
      testing::internal::GetCapturedStderr().find("until then pods are fitted without LimitRanges"),
      std::string::npos);
  api.set_failures({});
  EXPECT_TRUE(informer->await_sync(kSoonMs)) << "the role was mended";
  EXPECT_TRUE(informer->await_settled(0));
}

// covers F-224
TEST(InformerTest, WaitForAListIsBounded) {
  FakeApi api;
  base::ManualClock clock;
  api.set_failures(
      [](const FakeApi::Call&) { return FakeApi::Failure{Status(Code::kUnavailable, "503")}; });
  const auto informer = Informer::start(api, limits(), clock);
  clock.advance_ms(Informer::kMostWaitMs - 1);
  EXPECT_FALSE(informer->await_settled(50));
  clock.advance_ms(1);
  EXPECT_TRUE(informer->await_settled(0));
  EXPECT_FALSE(informer->synced());
}

std::string ml_event(const std::string& type, const std::string& name, const std::string& version) {
  return R"({"type":")" + type + R"(","object":{"metadata":{"namespace":"ml","name":")" + name +
         R"(","resourceVersion":")" + version + "\"}}}\n";
}

std::string synced_at(const std::string& version) {
  return R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":")" + version +
         R"(","annotations":{"k8s.io/initial-events-end":"true"}}}})"
         "\n";
}

TEST(InformerTest, StreamedListIsAppliedWhenComplete) {
  std::atomic<bool> go_on = false;
  std::atomic<int> lists = 0;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string& request) {
    const bool stream = request.find("sendInitialEvents=true") != std::string::npos;
    if (!stream && request.find("resourceVersion=12") == std::string::npos) ++lists;
    peer.begin_chunks();
    if (!stream) return peer.await_end();
    peer.chunk(ml_event("ADDED", "a", "3") + ml_event("ADDED", "b", "4"));
    while (!go_on && peer.open()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    peer.chunk(synced_at("10") + ml_event("MODIFIED", "a", "11") + ml_event("BOOKMARK", "", "12"));
    peer.send("0\r\n\r\n");
  }));
  Told told;
  const auto informer = Informer::start(*fixture.client, pods(told), fixture.clock);
  EXPECT_FALSE(informer->await_sync(50)) << "two objects are not yet all";
  EXPECT_TRUE(informer->all().empty());
  go_on = true;
  ASSERT_TRUE(informer->await_sync(kSoonMs));
  EXPECT_TRUE(soon([&] { return fixture.server.connections() >= 1 && told.has("~a"); }));
  EXPECT_EQ(informer->all().size(), 2U);
  EXPECT_EQ(lists, 0);
}

TEST(InformerTest, ResumesFromItsBookmarkAndListsAgainAfterExpiry) {
  std::mutex mutex;
  std::vector<std::string> lines;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string& request) {
    const std::string line = first_line(request);
    int round = 0;
    {
      const std::lock_guard lock(mutex);
      lines.push_back(line);
      round = static_cast<int>(lines.size());
    }
    if (line.find("sendInitialEvents") != std::string::npos) {
      peer.begin_chunks();
      peer.chunk(ml_event("ADDED", round == 1 ? "gone" : "a", "3") + synced_at("10") +
                 ml_event("BOOKMARK", "", "15"));
    } else if (round == 2) {
      peer.begin_chunks();
      peer.chunk(R"({"type":"ERROR","object":{"code":410,"message":"too old"}})"
                 "\n");
    } else {
      peer.begin_chunks();
      return peer.await_end();
    }
    peer.send("0\r\n\r\n");
  }));
  Told told;
  const auto informer = Informer::start(*fixture.client, pods(told), fixture.clock);
  EXPECT_TRUE(soon([&] { return told.has("-gone") && told.has("+a"); }));
  const std::lock_guard lock(mutex);
  ASSERT_GE(lines.size(), 3U);
  EXPECT_NE(lines[1].find("?resourceVersion=15&watch=1"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("sendInitialEvents=true"), std::string::npos) << lines[2];
}

TEST(InformerTest, WithoutStreamedListsPagesAreRequested) {
  ClientFixture fixture(each_request([&](Peer& peer, const std::string& request) {
    const std::string line = first_line(request);
    if (line.find("sendInitialEvents") != std::string::npos)
      return peer.answer("{}", "422 Unprocessable Entity");
    if (line.find("watch=1") == std::string::npos)
      return peer.answer(
          R"({"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"namespace":"ml",)"
          R"("name":"a"}}]})");
    EXPECT_NE(line.find("resourceVersion=7"), std::string::npos);
    peer.begin_chunks();
    peer.chunk(ml_event("DELETED", "a", "8"));
    peer.await_end();
  }));
  Told told;
  const auto informer = Informer::start(*fixture.client, pods(told), fixture.clock);
  EXPECT_TRUE(soon([&] { return told.has("+a") && told.has("-a"); }));
}

TEST(InformerTest, EndsQuicklyInAnyServerState) {
  ClientFixture fixture([](Peer& peer, int) { peer.await_end(); });
  Told told;
  const auto began = std::chrono::steady_clock::now();
  {
    const auto informer = Informer::start(*fixture.client, pods(told), fixture.clock);
    informer->await_sync(50);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(15));
}

}  // namespace
}  // namespace larder::k8s
