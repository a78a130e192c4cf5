// The chunks of a prompt: tails leave before heads, whoever stored and used them in whatever order.
#include <random>
#include <ranges>
#include <set>

#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::GrantStatus;
using Numbers = std::vector<std::uint64_t>;

class Prompts : public testing::Test {
 protected:
  explicit Prompts(std::uint64_t slots = 8) : box_(slots) {
    box_.add_session(1);
    box_.add_session(2);
  }
  // Asks for the chunks from `first` on, in one message.
  std::vector<protocol::Grant> reserve(const Numbers& prompt, std::size_t first = 0,
                                       std::uint16_t shard = 0) {
    std::vector<protocol::BlockHash> hashes, parents;
    for (std::size_t i = first; i < prompt.size(); ++i) {
      hashes.push_back(box_.key(prompt[i]).hash);
      parents.push_back(i == 0 ? protocol::BlockHash{} : box_.key(prompt[i - 1]).hash);
    }
    std::vector<protocol::Grant> grants(hashes.size());
    box_.store().reserve(1, {{}, box_.handle(), shard, 0}, hashes, grants, parents);
    return grants;
  }
  void commit(const protocol::Grant& grant) {
    if (grant.status == 0) box_.store().commit(1, {grant.slot, 0, grant.generation, 1});
  }
  void store(const Numbers& prompt, std::size_t first = 0, std::uint16_t shard = 0) {
    for (const protocol::Grant& grant : reserve(prompt, first, shard)) commit(grant);
  }
  // An engine hits the chunks, and reports them from the first on or from the last on.
  void use(Numbers chunks, bool reversed) {
    if (reversed) std::ranges::reverse(chunks);
    box_.store().begin_uses();
    for (const std::uint64_t n : chunks)
      if (const auto found = box_.find(n)) box_.store().touch(found->slot, found->generation);
  }
  // The chunks below 1,000 in memory.
  Numbers left() {
    Numbers numbers;
    for (std::uint64_t n = 0; n < 1000; ++n)
      if (box_.find(n)) numbers.push_back(n);
    return numbers;
  }
  // Stores prompts of one chunk each.
  void press(std::uint64_t chunks) {
    while (chunks-- > 0) box_.put(2, ++pressed_);
  }

  StoreBox box_;
  std::uint64_t pressed_ = 1000;
};

TEST_F(Prompts, LoseTheirTailFirst) {
  store({1, 2, 3, 4});
  store({5, 6, 7, 8});
  press(1);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 5, 6, 7, 8}));
  press(2);
  EXPECT_EQ(left(), (Numbers{1, 5, 6, 7, 8}));
  press(2);
  EXPECT_EQ(left(), (Numbers{5, 6, 7}));
}

TEST_F(Prompts, UseInAnyOrderUsesTheWholeHead) {
  store({1, 2, 3, 4});
  store({5, 6, 7, 8});
  for (const bool reversed : {false, true}) {
    use({1, 2, 3}, reversed);
    use({5, 6}, reversed);
  }
  use({3}, false);
  press(1);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 5, 6, 7, 8})) << "4 was used longest ago";
  press(1);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 5, 6, 7}));
  press(2);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 5})) << "6 and its head were used before 3";
  press(1);
  EXPECT_EQ(left(), (Numbers{1, 2, 3}));
}

TEST_F(Prompts, LaterStoredTailIsEvictedEarlier) {
  store({1, 2});
  store({5, 6});
  store({1, 2, 3, 4}, 2);
  press(2);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4, 5, 6}));
  press(2);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4})) << "a store is a use of the head";
  press(1);
  EXPECT_EQ(left(), (Numbers{1, 2, 3}));
}

TEST_F(Prompts, SharedHeadIsEvictedLast) {
  store({1, 2, 3, 4});
  store({1, 2, 5, 6}, 2);
  use({1, 2, 3, 4}, false);
  press(4);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4}));
  press(2);
  EXPECT_EQ(left(), (Numbers{1, 2}));
  press(1);
  EXPECT_EQ(left(), (Numbers{1}));
}

TEST_F(Prompts, CommitsMayComeInAnyOrder) {
  for (const bool later : {false, true}) {
    const Numbers prompt = later ? Numbers{5, 6, 7, 8} : Numbers{1, 2, 3, 4};
    std::vector<protocol::Grant> grants = reserve(prompt);
    for (const std::size_t i : {2, 0, 3, 1}) {
      commit(grants[i]);
      if (later) box_.store().begin_uses();  // other engines' messages between
    }
  }
  press(3);
  EXPECT_EQ(left(), (Numbers{1, 5, 6, 7, 8}));
  press(4);
  EXPECT_EQ(left(), (Numbers{5}));
}

// covers F-301
TEST_F(Prompts, LongerThanTheMemoryKeepTheirHead) {
  Numbers prompt;
  box_.put(1, 500);
  for (std::uint64_t n = 1; n <= 15; ++n) {
    prompt.push_back(n);
    if (n % 3 == 0) store(prompt, std::min<std::size_t>(n - 3, 8));  // refused chunks once more
  }
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4, 5, 6, 7, 8}))
      << "another prompt makes room, the head does not";
  EXPECT_EQ(box_.stats().refused_no_space, 0U);
  EXPECT_EQ(box_.stats().refused_own_prompt, 1U + 4 + 7);
}

TEST_F(Prompts, WithoutParentsChunksAreIndependent) {
  for (std::uint64_t n = 1; n <= 8; ++n) box_.put(1, n);
  press(3);
  EXPECT_EQ(left(), (Numbers{4, 5, 6, 7, 8}));
}

TEST_F(Prompts, LinkToAReplacedParentIsIgnored) {
  store({1, 2, 3});
  const auto bad = box_.find(2);
  box_.store().report_bad({bad->slot, 0, bad->generation});
  while (box_.store().verify_next()) {
  }
  box_.store().sweep();
  store({7, 8});
  ASSERT_EQ(box_.find(7)->slot, bad->slot) << "this test needs the same slot";
  store({4, 5, 6});
  use({3}, false);
  press(3);
  EXPECT_EQ(left(), (Numbers{3, 4, 5, 6, 7})) << "a use of 3 is no use of 7";
}

TEST_F(Prompts, APinnedHeadIsNotMoved) {
  store({1, 2, 3, 4});
  store({1, 2, 3, 4}, 0, 1);
  const protocol::BlockHash head = box_.key(1).hash;
  ASSERT_EQ(box_.store().families().pin(box_.handle(), std::span(&head, 1)).found, 1U);
  use({4, 3}, false);
  press(6);
  EXPECT_EQ(left(), (Numbers{1}));
}

TEST_F(Prompts, ChunksBehindAGuestAreOwn) {
  const protocol::Grant grant = box_.store().promote(box_.key(1), 4096, 4096);
  ASSERT_TRUE(
      box_.store().promoted({grant.slot, 0, grant.generation}, box_.write(grant, 1), 1, 0, true));
  store({1, 2, 3}, 1);
  press(5);
  press(1);
  EXPECT_EQ(left(), (Numbers{2, 3})) << "the owner still has the guest";
  press(1);
  EXPECT_EQ(left(), (Numbers{2}));
}

// Each family is stored shard by shard, as two ranks do.
TEST_F(Prompts, FamilyTailsAreEvictedAsFamilies) {
  store({1, 2});
  store({1, 2}, 0, 1);
  store({5, 6});
  store({5, 6}, 0, 1);
  store({1, 2, 3}, 2);
  store({1, 2, 3}, 2, 1);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 5}));
  for (const std::uint64_t n : {1, 2, 3, 5}) EXPECT_TRUE(box_.has(box_.sibling(n))) << n;
  store({1, 2, 3, 4}, 3);
  store({1, 2, 3, 4}, 3, 1);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4}));
  store({1, 2, 3, 4, 9}, 4, 1);
  for (const std::uint64_t n : {1, 2, 3, 4})
    EXPECT_TRUE(box_.has(box_.key(n)) && box_.has(box_.sibling(n))) << n;
}

// The second rank has stored 1 and 2 before all others.
TEST_F(Prompts, LateRankEvictsOnlyColderChunks) {
  store({1, 2}, 0, 1);
  for (const std::uint64_t n : {20, 21, 22}) box_.put(2, n);
  store({1, 2, 3});
  ASSERT_EQ(box_.free_slots(), 0U);
  store({1, 2, 3, 4}, 3);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4, 21, 22}));
  EXPECT_TRUE(box_.has(box_.sibling(1)) && box_.has(box_.sibling(2)));
}

TEST_F(Prompts, GrantEvictsOnlyColderChunks) {
  store({1, 2}, 0, 1);
  for (const std::uint64_t n : {20, 21}) box_.put(2, n);
  store({1, 2, 3});
  reserve({1, 2, 3}, 2, 1);  // a use of 1 and 2
  box_.store().begin_uses();
  for (const std::uint64_t n : {20, 21})
    box_.store().touch(box_.find(n)->slot, box_.find(n)->generation);
  ASSERT_EQ(box_.free_slots(), 0U);
  store({1, 2, 3, 4}, 3);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4, 21}));
  EXPECT_TRUE(box_.has(box_.sibling(1)) && box_.has(box_.sibling(2)));
}

TEST_F(Prompts, PromptWithoutSpaceLeavesSearchEffortToOthers) {
  store({1, 2, 3, 4, 5, 6, 7, 8});
  std::vector<protocol::BlockHash> hashes, parents;
  for (std::uint64_t n = 100; n < 1124; ++n) {
    hashes.push_back(box_.key(n).hash);
    parents.push_back(box_.key(8).hash);
  }
  parents.back() = {};
  std::vector<protocol::Grant> grants(hashes.size());
  const std::uint64_t before = box_.store().effort();
  box_.store().reserve(1, {{}, box_.handle(), 0, 0}, hashes, grants, parents);
  EXPECT_LE(box_.store().effort() - before, 6 * hashes.size() + Store::kReserveEffort / 8 + 64);
  EXPECT_EQ(grants.front().status, status_of(GrantStatus::kNoSpace));
  EXPECT_EQ(box_.stats().refused_own_prompt, hashes.size() - 1);
  EXPECT_EQ(grants.back().status, status_of(GrantStatus::kGranted));
}

// covers F-104
TEST_F(Prompts, AParentIsAnOlderChunkOfTheSameScope) {
  const auto hash = [&](std::uint64_t n) { return box_.key(n).hash; };
  box_.put(1, protocol::Key{hash(7), box_.open("field: b\n"), 0, 0});
  box_.put(1, box_.sibling(8));
  // 1 and 2 name each other, 3 names itself, 4 a chunk that nobody stored, 5 a chunk of another
  // shard, and 6 one of another namespace.
  const std::vector<protocol::BlockHash> hashes{hash(1), hash(2), hash(3),
                                                hash(4), hash(5), hash(6)};
  const std::vector<protocol::BlockHash> parents{hash(2),   hash(1), hash(3),
                                                 hash(400), hash(8), hash(7)};
  std::vector<protocol::Grant> grants(hashes.size());
  box_.store().reserve(1, {{}, box_.handle(), 0, 0}, hashes, grants, parents);
  for (const protocol::Grant& grant : grants) commit(grant);
  for (int round = 0; round < 3; ++round) use({1, 2, 3, 4, 5, 6}, round % 2 == 0);
  use({3}, false);
  press(2);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4, 5, 6})) << "7 and 8 were used by no child";
  press(3);
  EXPECT_EQ(left(), (Numbers{1, 2, 3})) << "each of the others was alone";
  press(1);
  EXPECT_EQ(left(), (Numbers{1, 3})) << "2 is below 1";
}

// A chain far longer than one message may walk.
TEST(LongPrompts, OneBatchMovesABoundedNumberOfAncestors) {
  constexpr std::uint64_t kChunks = 12'000, kStep = 1000;
  StoreBox box(kChunks + 8);
  box.add_session(1);
  for (std::uint64_t first = 1; first < kChunks; first += kStep) {
    std::vector<protocol::BlockHash> hashes, parents;
    for (std::uint64_t n = first; n < first + kStep; ++n) {
      hashes.push_back(box.key(n).hash);
      parents.push_back(n == 1 ? protocol::BlockHash{} : box.key(n - 1).hash);
    }
    std::vector<protocol::Grant> grants(kStep);
    const std::uint64_t before = box.store().effort();
    box.store().reserve(1, {{}, box.handle(), 0, 0}, hashes, grants, parents);
    EXPECT_LE(box.store().effort() - before, Store::kReserveEffort * 9 / 8 + kStep + 16) << first;
    for (const protocol::Grant& grant : grants)
      box.store().commit(1, {grant.slot, 0, grant.generation, 1});
  }
  const auto last = box.find(kChunks);
  ASSERT_TRUE(last.has_value());
  box.store().begin_uses();
  const std::uint64_t before = box.store().effort();
  box.store().touch(last->slot, last->generation);
  EXPECT_LE(box.store().effort() - before, Store::kReserveEffort + 16U);
}

// A use of the last chunk of a chain that is longer than the walk.
TEST(LongPrompts, TailsBehindATruncatedWalkAreEvictedFirst) {
  constexpr std::uint64_t kChunks = Store::kReserveEffort + 1000;
  StoreBox box(kChunks);
  box.add_session(1);
  std::vector<protocol::BlockHash> hashes, parents{{}};
  for (std::uint64_t n = 1; n <= kChunks; ++n) hashes.push_back(box.key(n).hash);
  parents.insert(parents.end(), hashes.begin(), hashes.end() - 1);
  std::vector<protocol::Grant> grants(kChunks);
  box.store().reserve(1, {{}, box.handle(), 0, 0}, hashes, grants, parents);
  for (const protocol::Grant& grant : grants)
    box.store().commit(1, {grant.slot, 0, grant.generation, 1});
  box.store().begin_uses();
  box.store().touch(grants.back().slot, grants.back().generation);
  box.put(1, kChunks + 1);
  EXPECT_TRUE(box.find(1) && box.find(2) && box.find(1000));
  EXPECT_FALSE(box.find(kChunks));
}

TEST(LongPrompts, CommitsFromTheLastToTheFirstWalkABoundedNumberOfLinks) {
  constexpr std::uint64_t kChunks = 1024;
  StoreBox box(kChunks);
  box.add_session(1);
  std::vector<protocol::BlockHash> hashes, parents{{}};
  for (std::uint64_t n = 1; n <= kChunks; ++n) hashes.push_back(box.key(n).hash);
  parents.insert(parents.end(), hashes.begin(), hashes.end() - 1);
  std::vector<protocol::Grant> grants(kChunks);
  box.store().reserve(1, {{}, box.handle(), 0, 0}, hashes, grants, parents);
  box.store().begin_uses();
  const std::uint64_t before = box.store().effort();
  for (const protocol::Grant& grant : std::views::reverse(grants))
    box.store().commit(1, {grant.slot, 0, grant.generation, 1});
  EXPECT_LE(box.store().effort() - before, Store::kReserveEffort);
  EXPECT_GT(box.store().effort() - before, 0U) << "the steps are counted";
}

class ManyPrompts : public Prompts {
 protected:
  ManyPrompts() : Prompts(64) {}
};

// Prompts of a tree, stored in steps and used at random. No chunk is in memory without its parent.
TEST_F(ManyPrompts, NeverKeepATailWithoutItsHead) {
  std::mt19937 random(20261127);
  std::vector<Numbers> prompts{{0}};
  std::uint64_t next = 1;
  for (int step = 0; step < 4000; ++step) {
    Numbers prompt = prompts[random() % prompts.size()];
    prompt.resize(1 + random() % prompt.size());
    if (prompts.size() > 40) prompts.erase(prompts.begin() + static_cast<int>(1 + random() % 40));
    for (std::size_t more = random() % 12; more-- > 0 && next < 100'000;) prompt.push_back(next++);
    prompts.push_back(prompt);
    std::size_t hit = 0;
    while (hit < prompt.size() && box_.find(prompt[hit])) ++hit;
    use(Numbers(prompt.begin(), prompt.begin() + static_cast<int>(hit)), random() % 2 == 0);
    while (hit < prompt.size()) {
      const std::size_t end = std::min(prompt.size(), hit + 1 + random() % 6);
      store(Numbers(prompt.begin(), prompt.begin() + static_cast<int>(end)), hit);
      hit = end;
    }
    for (const Numbers& known : prompts)
      for (std::size_t i = 1; i < known.size(); ++i)
        ASSERT_TRUE(box_.find(known[i - 1]) || !box_.find(known[i])) << "step " << step;
  }
}

}  // namespace
}  // namespace larder::store::testing_support
