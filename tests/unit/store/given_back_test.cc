// Namespaces that are given back: the remaining references, the look-ups by an old handle, and the
// leftovers.
#include <random>

#include "tests/unit/store/recording_listener.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

class ReleasedNamespace : public testing::Test {
 protected:
  ReleasedNamespace() {
    box_.add_session(kWriter);
    store_.join_namespace(box_.handle());
  }
  std::uint32_t open(const std::string& text) {
    const std::uint32_t handle = box_.open(text);
    store_.join_namespace(handle);
    return handle;
  }
  static protocol::Key key(std::uint32_t handle, std::uint64_t n = 1) {
    return {{n, n}, handle, 0, 0};
  }
  bool is_open(std::uint32_t handle) const { return store_.namespaces().is_open(handle); }
  bool dropped(std::uint32_t handle) {
    Drop drop{handle, true};
    store_.drop(drop);
    return drop.done;
  }

  StoreBox box_{16};
  Store& store_ = box_.store();
};

// covers F-101
TEST_F(ReleasedNamespace, WithoutSessionAndChunkFreesItsPlace) {
  const std::uint32_t first = open("a: 1");
  store_.leave_namespace(first);
  EXPECT_FALSE(is_open(first));
  const std::uint32_t second = open("a: 2");
  EXPECT_EQ(protocol::namespace_place(second), protocol::namespace_place(first));
  EXPECT_NE(second, first);
  EXPECT_EQ(box_.put(kWriter, key(second)).status, 0U);
  EXPECT_TRUE(box_.has(key(second)));
  EXPECT_FALSE(box_.has(key(first))) << "an engine that still looks up under the old handle misses";
  EXPECT_EQ(box_.filled().namespaces.size(), 2U);
}

TEST_F(ReleasedNamespace, StaysUntilItsChunkIsEvicted) {
  const std::uint32_t handle = open("a: 1");
  box_.put(kWriter, key(handle));
  store_.leave_namespace(handle);
  ASSERT_TRUE(is_open(handle));
  EXPECT_EQ(open("a: 1"), handle) << "an engine that comes back finds it";
  EXPECT_TRUE(box_.has(key(handle)));
  store_.leave_namespace(handle);
  const protocol::BlockHash hashes[] = {{1, 1}, {2, 2}};
  const protocol::ActCounts counts = store_.families().evict(handle, hashes);
  EXPECT_EQ(counts.found, 1U);
  EXPECT_EQ(counts.absent, 1U) << "the handle is invalid by then";
  EXPECT_FALSE(is_open(handle));
}

TEST_F(ReleasedNamespace, IsFreedByEviction) {
  const std::uint32_t handle = open("a: 1");
  box_.put(kWriter, key(handle));
  store_.leave_namespace(handle);
  for (std::uint64_t n = 0; n < 40; ++n) box_.put(kWriter, n);
  EXPECT_FALSE(is_open(handle));
}

TEST_F(ReleasedNamespace, StaysUntilItsGrantsEnd) {
  const std::uint32_t handle = open("a: 1");
  const protocol::Grant one = box_.reserve(kWriter, key(handle, 1)),
                        two = box_.reserve(kWriter, key(handle, 2));
  store_.leave_namespace(handle);
  store_.disown(kWriter, {one.slot, 0, one.generation});
  ASSERT_TRUE(is_open(handle));
  store_.commit(kWriter, {two.slot, 0, two.generation, 7});
  EXPECT_TRUE(box_.has(key(handle, 2)));
  EXPECT_TRUE(dropped(handle));
  EXPECT_FALSE(is_open(handle));
}

TEST_F(ReleasedNamespace, IsFreedDespitePendingWritesAndReads) {
  const std::uint32_t handle = open("a: 1");
  const protocol::Grant written = box_.reserve(kWriter, key(handle, 1)),
                        read = box_.put(kWriter, key(handle, 2));
  StoreBox::hold(box_.region(kWriter), 0, read);
  const std::uint64_t free = box_.free_slots();
  store_.leave_namespace(handle);
  ASSERT_TRUE(dropped(handle));
  EXPECT_FALSE(is_open(handle)) << "set aside, both wait for their engine under no key";
  EXPECT_EQ(box_.free_slots(), free) << "and belong to no other namespace";
  const std::uint32_t next = open("a: 2");
  EXPECT_FALSE(box_.has(key(next, 1)) || box_.has(key(next, 2)));
  store_.commit(kWriter, {written.slot, 0, written.generation, 7});
  box_.region(kWriter).holds[0].exchange(0);
  store_.sweep();
  EXPECT_EQ(box_.free_slots(), free + 2);
  EXPECT_FALSE(box_.has(key(next, 1))) << "a commit of before is refused";
  EXPECT_TRUE(is_open(next));
}

TEST_F(ReleasedNamespace, StaysUntilItsBadChunkIsVerified) {
  RecordingListener tier;
  store_.tiers().set(0, &tier);
  const std::uint32_t handle = open("a: 1");
  const protocol::Grant grant = box_.put(kWriter, key(handle));
  store_.leave_namespace(handle);
  store_.report_bad({grant.slot, 0, grant.generation});
  ASSERT_TRUE(is_open(handle)) << "the tier below is to be told by its name";
  ASSERT_TRUE(store_.verify_next());
  EXPECT_EQ(tier.damaged_keys.size(), 1U);
  EXPECT_FALSE(is_open(handle));
  store_.tiers().set(0, nullptr);
}

TEST_F(ReleasedNamespace, DropCoversOnlyMemoryOfUnopenedNamespace) {
  RecordingListener tier;
  store_.tiers().set(0, &tier);
  const std::uint32_t handle = open("a: 1");
  box_.put(kWriter, key(handle));
  EXPECT_TRUE(dropped(handle));
  EXPECT_TRUE(box_.has(key(handle))) << "a session has it open";
  store_.leave_namespace(handle);
  EXPECT_TRUE(dropped(handle));
  EXPECT_FALSE(is_open(handle));
  EXPECT_TRUE(tier.drops.empty()) << "the tier keeps its chunks";
  store_.tiers().set(0, nullptr);
}

TEST_F(ReleasedNamespace, PromotionUnderAnOldHandleIsRefused) {
  const std::uint32_t handle = open("a: 1");
  const protocol::Grant coming = store_.promote(key(handle, 1), 4096, 4096);
  ASSERT_EQ(coming.status, 0U);
  store_.leave_namespace(handle);
  ASSERT_TRUE(is_open(handle)) << "it is on its way";
  ASSERT_TRUE(dropped(handle));
  EXPECT_EQ(store_.promote(key(handle, 2), 4096, 4096).status,
            status_of(protocol::GrantStatus::kRefused));
  std::vector<Member> members;
  store_.families().look_at(handle, {1, 1}, members);
  EXPECT_TRUE(members.empty());
  const std::uint32_t next = open("a: 2");
  EXPECT_FALSE(store_.promoted({coming.slot, 0, coming.generation}, 7, 0, 0));
  EXPECT_FALSE(box_.has(key(next, 1)));
}

TEST_F(ReleasedNamespace, TwentyThousandLeakNothing) {
  const std::uint64_t free = box_.free_slots();
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint32_t handle = open("adapter: " + std::to_string(i));
    ASSERT_EQ(box_.put(kWriter, key(handle)).status, 0U);
    ASSERT_TRUE(box_.has(key(handle)));
    store_.leave_namespace(handle);
    ASSERT_TRUE(dropped(handle));
    ASSERT_FALSE(is_open(handle) || box_.has(key(handle)));
  }
  EXPECT_EQ(box_.free_slots(), free);
  EXPECT_EQ(store_.namespaces().size(), 1U);
  EXPECT_EQ(store_.namespaces().given_back(), 20'000U);
}

// After any event of chunks and sessions: a namespace is open exactly as long as a session or a key
// refers to it.
TEST_F(ReleasedNamespace, TableMatchesTheIndexAfterRandomOperations) {
  std::mt19937_64 random(7);
  std::map<std::string, std::uint32_t> mine;
  std::vector<protocol::Grant> grants;
  const auto pick = [&](std::size_t n) { return random() % n; };
  for (int step = 0; step < 20'000; ++step) {
    const std::string text = "a: " + std::to_string(pick(6));
    const auto at = mine.find(text);
    if (at == mine.end()) {
      mine[text] = open(text);
    } else if (pick(4) == 0) {
      store_.leave_namespace(at->second);
      if (is_open(at->second) && pick(3) == 0) dropped(at->second);
      mine.erase(at);
    } else {
      grants.push_back(box_.reserve(kWriter, key(at->second, pick(12))));
    }
    if (!grants.empty() && pick(2) == 0) {
      const protocol::Grant grant = grants[pick(grants.size())];
      if (grant.status == 0 && pick(3) != 0)
        store_.commit(kWriter, {grant.slot, 0, grant.generation, 7});
      if (grant.status == 0 && pick(3) == 0) store_.report_bad({grant.slot, 0, grant.generation});
      if (grant.status == 0 && pick(4) == 0)
        store_.disown(kWriter, {grant.slot, 0, grant.generation});
    }
    if (pick(8) == 0) store_.verify_next();
    if (pick(50) == 0)
      store_.sessions().set_silent(kWriter, true), store_.sessions().set_silent(kWriter, false);
    store_.sweep();
    std::uint64_t chunks = 0;
    for (const std::uint32_t handle : store_.namespaces().handles()) {
      const Namespace& space = store_.namespaces().at(handle);
      chunks += space.chunks;
      ASSERT_TRUE(space.sessions != 0 || space.slots != 0) << "step " << step;
      ASSERT_LE(space.chunks, space.slots);
    }
    ASSERT_EQ(chunks, box_.filled().slots_committed);
    for (const auto& [name, handle] : mine) ASSERT_TRUE(is_open(handle)) << "step " << step;
  }
}

}  // namespace
}  // namespace larder::store::testing_support
