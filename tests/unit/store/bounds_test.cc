// No call of the store takes long, for any number of a namespace's shards and groups: large
// requests are done in slices, and the search for room gives up. Counted in look-ups, not in time.
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

constexpr std::uint64_t kFamily = protocol::kMaxShards * protocol::kMaxGroups;

// A namespace of as many shards and groups as there may be.
class BoundsTest : public testing::Test {
 protected:
  explicit BoundsTest(std::uint64_t slots = 4096) : box_(slots) {
    box_.add_session(1);
    NamespaceSpec spec = make_spec("shards: 256\n");
    spec.shard_count = protocol::kMaxShards;
    spec.groups.assign(protocol::kMaxGroups, spec.groups.front());
    std::string difference;
    handle_ = *box_.store().open_namespace(spec, &difference);
  }
  std::vector<protocol::BlockHash> hashes(std::size_t count) const {
    std::vector<protocol::BlockHash> list;
    for (std::size_t n = 0; n < count; ++n) list.push_back(box_.key(n).hash);
    return list;
  }
  // The most that one call costs.
  template <typename Call>
  void expect_effort(std::uint64_t most, const Call& call) {
    const std::uint64_t before = box_.store().effort();
    call();
    EXPECT_LE(box_.store().effort() - before, most);
  }

  StoreBox box_;
  std::uint32_t handle_ = 0;
};

TEST_F(BoundsTest, VerbsRunInSlices) {
  using Verb =
      protocol::ActCounts (FamilyVerbs::*)(std::uint32_t, std::span<const protocol::BlockHash>);
  const std::vector<protocol::BlockHash> asked = hashes(protocol::kMaxKeysPerAct);
  for (const Verb verb :
       {&FamilyVerbs::prefetch, &FamilyVerbs::pin, &FamilyVerbs::unpin, &FamilyVerbs::evict}) {
    std::uint64_t slices = 0;
    protocol::ActCounts counts;
    for (; counts.all() < asked.size() && slices < asked.size(); ++slices)
      expect_effort(Store::kSliceEffort + kFamily, [&] {
        counts += (box_.store().families().*verb)(handle_, std::span(asked).subspan(counts.all()));
      });
    EXPECT_EQ(counts.absent, asked.size());
    EXPECT_EQ(slices, asked.size() * kFamily / Store::kSliceEffort);
  }
}

// Three stored chunks of one message have parents, each of a family with many missing chunks.
TEST_F(BoundsTest, ManyParentsLeaveTheSearchForRoomItsBudget) {
  using protocol::GrantStatus;
  const std::vector<protocol::BlockHash> prompt = hashes(5);
  std::vector<protocol::BlockHash> parents{{}, prompt[0], prompt[1], prompt[2]};
  for (std::uint64_t n = 0; n < 4092; ++n) box_.put(1, 1000 + n);
  std::vector<protocol::Grant> grants(4);
  const protocol::Key scope{{}, handle_, 0, 0};
  box_.store().reserve(1, scope, std::span(prompt).first(4), grants, parents);
  for (const protocol::Grant& grant : grants)
    box_.store().commit(1, {grant.slot, 0, grant.generation, 1});
  ASSERT_EQ(box_.free_slots(), 0U);
  parents = {prompt[0], prompt[1], prompt[2], {}};
  expect_effort(2 * Store::kReserveEffort + kFamily, [&] {
    box_.store().reserve(1, scope, std::span(prompt).last(4), grants, parents);
  });
  EXPECT_EQ(grants[2].status, status_of(GrantStatus::kPresent));
  EXPECT_EQ(grants[3].status, status_of(GrantStatus::kGranted)) << "other prompts make room";
}

// One chunk of each family: each eviction costs the look-ups of all missing ones.
TEST_F(BoundsTest, SearchForSpaceIsBounded) {
  protocol::Key key = box_.key(0);
  key.namespace_handle = handle_;
  std::vector<protocol::Grant> grants(1024);
  for (std::uint64_t n = 0; n < 4096; ++n) {
    key.hash = box_.key(n).hash;
    ASSERT_EQ(box_.put(1, key).status, 0U);
  }
  std::vector<protocol::BlockHash> others;
  for (std::uint64_t n = 10'000; others.size() < grants.size(); ++n)
    others.push_back(box_.key(n).hash);
  expect_effort(grants.size() + Store::kReserveEffort + kFamily,
                [&] { box_.store().reserve(1, key, others, grants); });
  EXPECT_EQ(grants.front().status, status_of(protocol::GrantStatus::kGranted));
  EXPECT_EQ(grants.back().status, status_of(protocol::GrantStatus::kNoSpace));
}

class DropBoundsTest : public BoundsTest {
 protected:
  DropBoundsTest() : BoundsTest(Store::kSliceEffort + 100) {}
};

TEST_F(DropBoundsTest, DropRunsInSlices) {
  for (std::uint64_t n = 0; n < Store::kSliceEffort + 50; ++n) box_.put(1, box_.key(n));
  Drop drop{box_.handle()};
  expect_effort(Store::kSliceEffort, [&] { box_.store().drop(drop); });
  EXPECT_FALSE(drop.done);
  EXPECT_TRUE(box_.has(box_.key(Store::kSliceEffort + 49)));
  expect_effort(Store::kSliceEffort, [&] { box_.store().drop(drop); });
  EXPECT_TRUE(drop.done);
  EXPECT_EQ(drop.dropped, Store::kSliceEffort + 50);
  EXPECT_EQ(box_.free_slots(), Store::kSliceEffort + 100) << "unread slots are free at once";
}

}  // namespace
}  // namespace larder::store::testing_support
