#include "operator/reconcile/peers_reachable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/pool_conditions.h"
#include "operator/reconcile/pool_status.h"
#include "tests/unit/operator/reconcile/condition_text.h"

namespace larder::reconcile {
namespace {

using api::Object;
using testing::HasSubstr;
using testing::Not;

struct Pool : PoolFacts {
  Pool() {
    pool =
        *api::parse_pool({{"metadata", {{"name", "chat"}, {"namespace", "ml"}, {"uid", "u"}}},
                          {"spec", Object::parse(R"({"memory": {"size": "1Gi"}, "peers": {}})")}});
  }
  void add(const std::string& name, std::optional<LarderdAnswer::Peers> peers) {
    PodView pod;
    pod.name = pod.uid = name;
    pod.ready = pod.has_larderd = true;
    pods.push_back(pod);
    heard.answers[name].peers = std::move(peers);
  }
  std::string said() const { return in_short(peers_reachable(*this)); }
  std::string words() const { return peers_reachable(*this).message; }
};

TEST(PeersReachableTest, FollowsLarderdAnswers) {
  Pool pool;
  EXPECT_EQ(pool.said(), "Unknown NotAsked");
  pool.add("old", std::nullopt);
  EXPECT_EQ(pool.said(), "Unknown RestartNeeded");
  pool.add("a", LarderdAnswer::Peers{});
  EXPECT_EQ(pool.said(), "True Alone");
  pool.heard.answers["a"].peers = LarderdAnswer::Peers{2, 2, 12'345'678, ""};
  pool.add("b", LarderdAnswer::Peers{3, 3, 100, ""});
  EXPECT_EQ(pool.said(), "True Reachable");
  const Object status = pool_status(pool, Object(), "2026-01-01T00:00:00Z");
  EXPECT_EQ(status["peers"],
            Object::parse(R"({"known": 3, "reachable": 2, "servedBytes": 12000000})"));
}

// covers F-325
TEST(PeersReachableTest, NamesThePodsAndTheReason) {
  Pool pool;
  pool.add("a", LarderdAnswer::Peers{2, 2, 0, ""});
  pool.add("b", LarderdAnswer::Peers{2, 1, 0, "10.0.0.7: Connection refused"});
  EXPECT_EQ(pool.said(), "False Unreachable");
  EXPECT_THAT(pool.words(), HasSubstr("1 of 2 pods (b): b reaches 1 of 2 peers: 10.0.0.7"));
  EXPECT_THAT(pool.words(), HasSubstr("9466"));
  EXPECT_EQ(in_short(condition_of(pool_conditions(pool), "Ready")), "True AllReady")
      << "each larderd serves its own engine";
}

// covers F-324
TEST(PeersReachableTest, ReportsCertificatesFirst) {
  Pool pool;
  pool.add("a", LarderdAnswer::Peers{1, 0, 0, "no file"});
  pool.peer_secret.status = Status(Code::kPermissionDenied, "forbidden");
  EXPECT_EQ(pool.said(), "False SecretRefused");
  EXPECT_THAT(pool.words(), HasSubstr("peerSecrets"));
  EXPECT_THAT(pool.words(), HasSubstr("larder-chat-peers of namespace ml"));
  pool.peer_secret.status = Status(Code::kUnavailable, "away");
  EXPECT_EQ(pool.said(), "False SecretNotKept");
  pool.peer_secret = {.status = {}, .taken = "Secret x exists already"};
  EXPECT_EQ(pool.said(), "False NameTaken");
  pool.peer_secret = {.status = {}, .taken = "", .waiting = true};
  EXPECT_EQ(pool.said(), "Unknown Waiting");
}

// A pool of sidecars has no condition ObjectsApplied.
TEST(PeersReachableTest, ReportsObjectsInPlacementSidecar) {
  Pool pool;
  pool.brought.taken = {"Service larder-chat-peers exists already"};
  EXPECT_EQ(pool.said(), "False NameTaken");
}

// covers F-320
TEST(PeersReachableTest, ReportsAMissingPolicy) {
  Pool pool;
  pool.add("a", LarderdAnswer::Peers{1, 1, 0, ""});
  EXPECT_THAT(pool.words(), Not(HasSubstr("NetworkPolicy")));
  pool.isolation = desired::Isolation::kMixed;
  EXPECT_EQ(pool.said(), "True Reachable");
  EXPECT_THAT(pool.words(), HasSubstr("no NetworkPolicy for the port of peers"));
}

}  // namespace
}  // namespace larder::reconcile
