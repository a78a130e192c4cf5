#include "operator/reconcile/larderd_answer.h"

#include <gtest/gtest.h>

#include "sidecar/pages/status_json.h"

namespace larder::reconcile {
namespace {

stats::Stats sample() {
  stats::Stats stats;
  stats.version = "1.2.3";
  stats.arena_bytes = 1000;
  stats.used_bytes = 400;
  stats.models.resize(2);
  stats.models[0].requests = 10;
  stats.models[0].requests_hit = 4;
  stats.models[0].tokens_asked = 1000;
  stats.models[0].tokens_hit = 700;
  stats.models[1].tokens_asked = 500;
  stats.sessions.resize(3);
  stats.backend.place = "redis://cache:6379";
  stats.backend.reason = "refused";
  stats.fallbacks = {{"config", "memory.size waits for a restart"}};
  return stats;
}

// larderd's own text: a change there is noticed here.
TEST(LarderdAnswerTest, StatusOfLarderdIsRead) {
  const Result<LarderdAnswer> answer = read_answer(pages::status_json(sample(), true, true));
  ASSERT_TRUE(answer.ok()) << answer.status().text();
  EXPECT_EQ(answer->version, "1.2.3");
  EXPECT_EQ(answer->capacity_bytes, 1000U);
  EXPECT_EQ(answer->used_bytes, 400U);
  EXPECT_EQ(answer->requests, 10U);
  EXPECT_EQ(answer->requests_hit, 4U);
  EXPECT_EQ(answer->tokens_asked, 1500U);
  EXPECT_EQ(answer->tokens_hit, 700U);
  EXPECT_EQ(answer->engines, 3U);
  ASSERT_TRUE(answer->backend);
  EXPECT_FALSE(answer->backend->serving);
  EXPECT_EQ(answer->backend->reason, "refused");
  ASSERT_EQ(answer->fallbacks.size(), 1U);
  EXPECT_EQ(answer->fallbacks[0].kind, "config");
  EXPECT_EQ(answer->fallbacks[0].why, "memory.size waits for a restart");
  EXPECT_EQ(answer->disk_capacity_bytes, 0U);
}

TEST(LarderdAnswerTest, PeersAreRead) {
  stats::Stats stats = sample();
  EXPECT_FALSE(read_answer(pages::status_json(stats, true, true))->peers);
  stats.peers.place = "dns:larder-chat-peers.ml.svc:9466";
  stats.peers.servers = 3;
  stats.peers.servers_reachable = 2;
  stats.peers.reason = "refused";
  stats.peer_serving.address = ":9466";
  stats.peer_serving.sent_bytes = 77;
  const Result<LarderdAnswer> answer = read_answer(pages::status_json(stats, true, true));
  ASSERT_TRUE(answer.ok() && answer->peers);
  EXPECT_EQ(answer->peers->known, 3U);
  EXPECT_EQ(answer->peers->reachable, 2U);
  EXPECT_EQ(answer->peers->served_bytes, 77U);
  EXPECT_EQ(answer->peers->reason, "refused");
}

TEST(LarderdAnswerTest, StatusWithoutBackendHasNone) {
  stats::Stats stats = sample();
  stats.backend.place.clear();
  const Result<LarderdAnswer> answer = read_answer(pages::status_json(stats, true, true));
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->backend);
}

// The setting for a person stands at the end of a reason. All kinds that larderd has at once, and
// four refused engines, fit in.
TEST(LarderdAnswerTest, LongReasonIsReadInFull) {
  stats::Stats stats = sample();
  const std::string reason = std::string(400, 'x') + ": set disk.size to at least 128MiB";
  stats.backend.reason = reason;
  stats.fallbacks.clear();
  for (const char* kind :
       {"hugepages", "numa", "restart", "pidfd", "config", "memory", "disk", "backend", "transfer"})
    stats.fallbacks.push_back({kind, reason});
  for (int i = 0; i < 4; ++i) stats.fallbacks.push_back({"engines", reason});
  const Result<LarderdAnswer> answer = read_answer(pages::status_json(stats, true, true));
  ASSERT_TRUE(answer.ok()) << answer.status().text();
  EXPECT_EQ(answer->backend->reason, reason);
  ASSERT_EQ(answer->fallbacks.size(), 13U);
  EXPECT_EQ(answer->fallbacks.back().kind, "engines");
  EXPECT_EQ(answer->fallbacks.back().why, reason);
}

TEST(LarderdAnswerTest, ForeignAnswerIsRefused) {
  for (const char* body : {"", "{}", "[]", "null", "7", "<html>", R"({"version": "1"})",
                           R"({"memory": {}, "version": 7})"})
    EXPECT_FALSE(read_answer(body).ok()) << body;
  EXPECT_FALSE(read_answer(std::string(kMostAnswerBytes + 1, ' ')).ok());
  EXPECT_FALSE(read_answer(std::string(5000, '[')).ok());
}

// A lying pod spoils only figures, and those stay numbers that can be added.
TEST(LarderdAnswerTest, FalseFiguresAreBounded) {
  const Result<LarderdAnswer> answer = read_answer(
      R"({"version": "x", "memory": {"capacity_bytes": 18446744073709551615, "used_bytes": -5},
          "models": [{"tokens_asked": 9223372036854775807}, {"tokens_asked": 9223372036854775807}, 7, "x"],
          "sessions": {"attached": "many"}, "backend": {"serving": "yes", "reason": 7}, "fallbacks": {"a": 1}})");
  ASSERT_TRUE(answer.ok()) << answer.status().text();
  EXPECT_EQ(answer->used_bytes, 0U);
  EXPECT_LE(answer->capacity_bytes, 1ULL << 50);
  EXPECT_LE(answer->tokens_asked, 1ULL << 53);
  EXPECT_FALSE(answer->backend->serving);
}

}  // namespace
}  // namespace larder::reconcile
