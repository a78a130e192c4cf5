#include "operator/reconcile/prober.h"

#include <gtest/gtest.h>

#include <atomic>

namespace larder::reconcile {
namespace {

constexpr const char* kAnswer =
    R"({"version": "1", "memory": {"capacity_bytes": 10, "used_bytes": 5}})";

class FakeFetch final : public Fetch {
 public:
  void get_all(std::span<const std::string> urls, std::size_t, std::stop_token,
               const OnAnswer& on_answer) override {
    for (std::size_t i = urls.size(); i-- > 0;) {
      ++asked;
      const auto found = answers.find(urls[i]);
      on_answer(i, found == answers.end()
                       ? Result<std::string>(Status(Code::kUnavailable, "refused"))
                       : Result<std::string>(found->second));
    }
  }
  std::map<std::string, std::string> answers;
  std::atomic<int> asked{0};
};

PodView pod_of_uid(const std::string& uid) {
  PodView view;
  view.uid = uid;
  return view;
}

struct Round {
  Round() : fetch(new FakeFetch) {}
  FakeFetch* fetch;
  std::vector<Prober::Target> targets;
  std::vector<std::string> told;
  Prober prober{std::unique_ptr<Fetch>(fetch), [this] { return targets; },
                [this](const k8s::Key& key) { told.push_back(key.name); }, 0};
};

TEST(ProberTest, TheNewestAnswerIsKept) {
  Round round;
  round.targets = {{{"ml", "chat"}, "a", "http://a"},
                   {{"ml", "chat"}, "b", "http://b"},
                   {{"ml", "code"}, "c", "http://c"}};
  round.fetch->answers = {{"http://a", kAnswer}, {"http://b", "<html>"}};
  round.prober.round({});
  EXPECT_EQ(round.told, (std::vector<std::string>{"chat", "code"}));
  const auto answers =
      round.prober.heard({pod_of_uid("a"), pod_of_uid("b"), pod_of_uid("c"), pod_of_uid("never")})
          .answers;
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers.at("a").used_bytes, 5U);
}

TEST(ProberTest, SilentPodIsForgottenAfterAWhile) {
  Round round;
  round.targets = {{{"ml", "chat"}, "a", "http://a"}};
  round.fetch->answers = {{"http://a", kAnswer}};
  round.prober.round({});
  round.fetch->answers.clear();
  for (unsigned i = 1; i < Prober::kMissesForgotten; ++i) {
    round.prober.round({});
    EXPECT_EQ(round.prober.heard({pod_of_uid("a")}).answers.size(), 1U) << i;
  }
  round.prober.round({});
  EXPECT_TRUE(round.prober.heard({pod_of_uid("a")}).answers.empty());
}

TEST(ProberTest, RemovedTargetIsForgotten) {
  Round round;
  round.targets = {{{"ml", "chat"}, "a", "http://a"}};
  round.fetch->answers = {{"http://a", kAnswer}};
  round.prober.round({});
  round.targets.clear();
  round.prober.round({});
  EXPECT_TRUE(round.prober.heard({pod_of_uid("a")}).answers.empty());
}

// For a silent larderd the supervisor is asked, in the same round.
TEST(ProberTest, SupervisorOfSilentLarderdIsQueried) {
  Round round;
  round.targets = {{{"ml", "chat"}, "a", "http://a", "http://a/supervisor"},
                   {{"ml", "chat"}, "b", "http://b", "http://b/supervisor"}};
  round.fetch->answers = {
      {"http://b", kAnswer},
      {"http://a/supervisor",
       R"({"ready": false, "why": "memory.size", "starts": 3, "out_of_memory": true})"},
      {"http://b/supervisor", R"({"ready": false, "why": "not asked"})"}};
  round.prober.round({});
  Heard heard = round.prober.heard({pod_of_uid("a"), pod_of_uid("b")});
  ASSERT_EQ(heard.down.size(), 1U);
  EXPECT_EQ(heard.down.at("a").why, "memory.size");
  EXPECT_TRUE(heard.down.at("a").out_of_memory);
  EXPECT_EQ(heard.answers.size(), 1U);

  round.fetch->answers["http://a"] = kAnswer;
  round.prober.round({});
  EXPECT_TRUE(round.prober.heard({pod_of_uid("a")}).down.empty());
  round.fetch->answers.erase("http://a");
  round.fetch->answers["http://a/supervisor"] = R"({"ready": true})";
  round.prober.round({});
  EXPECT_TRUE(round.prober.heard({pod_of_uid("a")}).down.empty());
}

TEST(ProberTest, AddressesOfBothFamiliesAreFormatted) {
  PodView view;
  view.ip = "10.0.0.7";
  EXPECT_EQ(Prober::url_of(view), "http://10.0.0.7:9464/v1/status");
  EXPECT_EQ(Prober::supervisor_url_of(view), "http://10.0.0.7:9465/v1/supervisor");
  view.ip = "fd00::7";
  EXPECT_EQ(Prober::url_of(view), "http://[fd00::7]:9464/v1/status");
}

TEST(ProberTest, ThreadProbesPeriodicallyAndEnds) {
  auto* fetch = new FakeFetch;
  std::atomic<int> told{0};
  {
    const Prober prober(
        std::unique_ptr<Fetch>(fetch),
        [] {
          return std::vector<Prober::Target>{{{"ml", "chat"}, "a", "http://a"}};
        },
        [&](const k8s::Key&) { ++told; }, 1);
    while (told < 3) std::this_thread::yield();
  }
  EXPECT_GE(told, 3);
}

}  // namespace
}  // namespace larder::reconcile
