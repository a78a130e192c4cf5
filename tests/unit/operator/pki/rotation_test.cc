#include "operator/pki/rotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace larder::pki {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Lifetimes kLives{.authority_s = 9000, .leaf_s = 900, .backdate_s = 10, .settle_s = 60};
constexpr std::int64_t kNow = 1'000'000;

Held fresh(std::int64_t now_s = kNow) {
  return {{authority_validity(now_s, kLives)}, true, HeldLeaf{leaf_validity(now_s, kLives), 0}};
}

TEST(RotationTest, FreshCertificatesNeedNoStep) {
  EXPECT_FALSE(next_step(fresh(), 0, kNow, kLives).changes());
  EXPECT_EQ(next_step(fresh(), 0, kNow, kLives).why, "");
}

TEST(RotationTest, FirstLeafWaitsOnlyForTheBundle) {
  EXPECT_TRUE(next_step({}, {}, kNow, kLives).make_authority);
  const Held only{{authority_validity(kNow, kLives)}, true, {}};
  EXPECT_FALSE(next_step(only, {}, kNow, kLives).changes()) << "not in the caBundle yet";
  EXPECT_TRUE(next_step(only, 0, kNow, kLives).make_leaf) << "no client can lose a handshake";
}

TEST(RotationTest, OldLeafIsRenewedInTime) {
  const std::int64_t later = kNow + 620;  // of 900
  EXPECT_TRUE(next_step(fresh(), 620, later, kLives).make_leaf);
  EXPECT_FALSE(next_step(fresh(), 590, kNow + 590, kLives).changes());
}

TEST(RotationTest, NewAuthorityIsAddedBeforeItsLeaf) {
  Held held = fresh();
  const std::int64_t later = kNow + 6500;
  held.leaf = HeldLeaf{leaf_validity(later - 10, kLives), 0};
  EXPECT_TRUE(next_step(held, 6500, later, kLives).make_authority);
  held.authorities.push_back(authority_validity(later, kLives));
  EXPECT_FALSE(next_step(held, {}, later, kLives).changes());
  EXPECT_FALSE(next_step(held, 59, later + 59, kLives).changes())
      << "some API server may not have it yet";
  EXPECT_TRUE(next_step(held, 60, later + 60, kLives).make_leaf);
  held.leaf = HeldLeaf{leaf_validity(later + 60, kLives), 1};
  EXPECT_FALSE(next_step(held, 700, later + 500, kLives).changes())
      << "a replica may serve the old leaf on";
  EXPECT_THAT(next_step(held, 900, later + 900, kLives).drop, ElementsAre(0))
      << "no leaf of the authority is valid any more";
}

TEST(RotationTest, BrokenCertificatesAreRenewed) {
  Held no_key = fresh();
  no_key.newest_key = false;
  EXPECT_THAT(next_step(no_key, 0, kNow, kLives).why, HasSubstr("key is missing"));
  EXPECT_TRUE(next_step(no_key, 0, kNow, kLives).make_authority);
  Held stranger = fresh();
  stranger.leaf->by.reset();
  EXPECT_TRUE(next_step(stranger, 0, kNow, kLives).make_leaf);
  EXPECT_TRUE(next_step(fresh(), 0, kNow - 20, kLives).make_authority)
      << "of the future: the clock was wrong";
  EXPECT_TRUE(next_step(fresh(), 0, kNow + 100'000, kLives).make_authority) << "long over";
}

// A cluster by seeds: a leader that comes and goes, replicas and API servers that learn late, a
// bundle that another client spoils. In any order: once there is a certificate, every handshake
// between any replica and any API server succeeds.
class Cluster {
 public:
  explicit Cluster(unsigned seed) : random_(seed) {}

  void run() {
    for (int i = 0; i < 4000; ++i, now_s_ += pick(1, 12)) {
      if (now_s_ >= leader_back_s_) lead();
      // Away for up to 200 s, and then there for 150: a third of a leaf's life is 300.
      if (now_s_ > leader_back_s_ + 150 && pick(0, 100) == 0)
        leader_back_s_ = now_s_ + pick(1, 200), known_since_s_ = -1;
      for (Replica& replica : replicas_)
        if (now_s_ >= replica.looks_s)
          replica = {held_.leaf ? leaf_ : replica.leaf, now_s_ + pick(1, 20)};
      for (Server& server : servers_) learn(server);
      check();
    }
    EXPECT_GE(authorities_made_, 3);
    EXPECT_GE(leaves_made_, 20);
  }

 private:
  struct Leaf {
    int authority = -1;
    Validity validity;
  };
  struct Replica {
    Leaf leaf;
    std::int64_t looks_s = 0;
  };
  struct Server {
    std::vector<int> trusted;
    std::int64_t learns_s = 0;
  };

  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution(least, most)(random_);
  }

  void lead() {
    for (int pass = 0; pass < 4; ++pass) {
      const bool newest_is_new =
          !ids_.empty() && (bundle_.empty() || bundle_.back() != ids_.back());
      bundle_ = ids_;
      if (newest_is_new) known_since_s_ = now_s_;
      // a new leader sees the bundle for the first time
      if (known_since_s_ < 0) known_since_s_ = now_s_;
      std::optional<std::int64_t> published;
      if (!ids_.empty()) published = now_s_ - known_since_s_;
      const Step step = next_step(held_, published, now_s_, kLives);
      if (!step.changes()) return;
      apply(step);
    }
  }

  void apply(const Step& step) {
    if (step.make_leaf) {
      held_.leaf = HeldLeaf{leaf_validity(now_s_, kLives), held_.authorities.size() - 1};
      leaf_ = {ids_.back(), held_.leaf->validity};
      ++leaves_made_;
    }
    for (auto i = step.drop.rbegin(); i != step.drop.rend(); ++i) {
      ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(*i));
      held_.authorities.erase(held_.authorities.begin() + static_cast<std::ptrdiff_t>(*i));
      if (held_.leaf && held_.leaf->by) --*held_.leaf->by;
    }
    if (!step.make_authority) return;
    held_.authorities.push_back(authority_validity(now_s_, kLives));
    held_.newest_key = true;
    ids_.push_back(authorities_made_++);
  }

  // An API server acts on a received bundle within settle_s.
  void learn(Server& server) {
    if (server.trusted == bundle_) return;
    if (server.learns_s == 0) server.learns_s = now_s_ + pick(0, kLives.settle_s - 15);
    if (now_s_ < server.learns_s) return;
    server = {bundle_, 0};
  }

  void check() {
    for (const Replica& replica : replicas_) {
      // before the first certificate no client is served
      if (replica.leaf.authority < 0 || now_s_ < 100) continue;
      EXPECT_LT(now_s_, replica.leaf.validity.not_after_s);
      for (const Server& server : servers_)
        EXPECT_THAT(server.trusted, testing::Contains(replica.leaf.authority)) << "at " << now_s_;
    }
  }

  std::mt19937 random_;
  std::int64_t now_s_ = 0, leader_back_s_ = 0, known_since_s_ = -1;
  Held held_;
  Leaf leaf_;
  std::vector<int> ids_, bundle_;
  std::array<Replica, 3> replicas_;
  std::array<Server, 3> servers_;
  int authorities_made_ = 0, leaves_made_ = 0;
};

TEST(RotationTest, NoHandshakeFailsInRandomSchedules) {
  for (unsigned seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Cluster(seed).run();
  }
}

}  // namespace
}  // namespace larder::pki
