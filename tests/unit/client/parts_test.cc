// Parts that larderd does not keep: stages of a pipeline without a layer of some group,
// and ranks next to another larderd.
#include <gtest/gtest.h>

#include "shim/client/namespaces.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/client/fake_session.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::Engine;
using testing_support::FakeSession;
using testing_support::hash_of;
using testing_support::hashes_of;
using testing_support::kFullLayout;
using testing_support::kWindowLayout;

const std::string kText = "engine: made-up\n";
// Two shards of two groups: the first stage has windows alone.
const std::vector<std::uint8_t> kNoFullInFirst{0, 1, 1, 1};

NamespaceSpec spec_of(std::uint32_t shards, std::uint32_t layout_shard, std::vector<Group> groups,
                      std::uint32_t state_groups = 0) {
  NamespaceSpec spec;
  spec.shard_count = shards;
  spec.layout_shard = layout_shard;
  spec.chunk_tokens = 64;
  spec.groups = std::move(groups);
  spec.state_groups = state_groups;
  return spec;
}

Group without_layers(Group group) {
  group.layers = 0;
  return group;
}

// One process of an engine with two groups: full attention, and windows.
struct Stage {
  Stage(const std::string& socket, std::uint32_t layout_shard, bool has_full,
        const std::vector<std::uint8_t>& kept, std::uint32_t shards = 2)
      : client(std::make_unique<Client>(Options{socket, "stage", 1}, copy::host_copy_engine())) {
    const Group first = has_full ? full.group() : without_layers(full.group());
    status = client->set_namespace(spec_of(shards, layout_shard, {first, window.group()}));
    if (status.ok() && has_full) status = client->register_pages(0, full.pages());
    if (status.ok()) status = client->register_pages(1, window.pages());
    if (status.ok() && !kept.empty()) status = client->set_parts(kept);
    if (!status.ok()) return;
    const Result<std::uint32_t> added = client->add_namespace(kText, "");
    status = added.status();
    if (added.ok()) ns = *added;
  }

  bool await_open() const {
    return client->wait_attached(5000).ok() && client->wait_namespace(ns, 5000).ok();
  }
  Transfer transfer(std::uint64_t hash, std::uint16_t shard, std::uint16_t group) {
    return {ns, shard, group, 0, {hash_of(hash)}, {}, engine(group).chunk_pages(0)};
  }
  Engine& engine(std::uint16_t group) { return group == 0 ? full : window; }
  std::uint64_t store(std::uint64_t hash, std::uint16_t shard, std::uint16_t group) {
    engine(group).fill(0, hash_of(hash * 100 + shard * 10U + group));
    EXPECT_TRUE(client->store_begin(transfer(hash, shard, group)).ok());
    return client->store_finish(2000).stored;
  }
  bool load(std::uint64_t hash, std::uint16_t shard, std::uint16_t group) {
    engine(group).wipe();
    const Result<std::uint64_t> ticket = client->load(transfer(hash, shard, group), 5000);
    for (int i = 0; ticket.ok() && i < 10000; ++i) {
      for (const Completion& done : client->poll(1))
        return done.status == Code::kOk &&
               engine(group).holds(0, hash_of(hash * 100 + shard * 10U + group));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  std::size_t present(const std::vector<protocol::BlockHash>& prompt) const {
    Hashes hashes = hashes_of(prompt);
    hashes.ns = ns;
    return client->lookups().present(hashes);
  }
  bool present(std::uint64_t hash) const { return present({hash_of(hash)}) == 1; }

  Engine full{kFullLayout}, window{kWindowLayout};
  std::unique_ptr<Client> client;
  std::uint32_t ns = 0;
  Status status;
};

class PartsTest : public loop::testing_support::SidecarTest {
 protected:
  PartsTest() { config_.memory.size_bytes = 32 << 20; }
};

// covers F-286
TEST_F(PartsTest, StageWithoutLayersOfAGroupHasNoPart) {
  start();
  Stage scheduler(config_.socket, 1, false, kNoFullInFirst),
      first(config_.socket, 1, false, kNoFullInFirst),
      second(config_.socket, 2, true, kNoFullInFirst);
  for (const Stage* stage : {&scheduler, &first, &second}) {
    ASSERT_TRUE(stage->status.ok()) << stage->status.to_string();
    ASSERT_TRUE(stage->await_open());
  }
  EXPECT_EQ(first.client->store_begin(first.transfer(1, 0, 0)).code(), Code::kInvalidArgument)
      << "a part that is left out";
  EXPECT_EQ(first.store(1, 0, 1) + second.store(1, 1, 0) + second.store(1, 1, 1), 3U);
  EXPECT_EQ(first.store(2, 0, 1) + second.store(2, 1, 0), 2U);
  ASSERT_TRUE(wait([&] { return scheduler.present(1); }));
  EXPECT_EQ(scheduler.present({hash_of(1), hash_of(2)}), 1U)
      << "the window of the second stage is missing";
  const std::vector<protocol::BlockHash> prompt{hash_of(1), hash_of(2)};
  Hashes hashes = hashes_of(prompt);
  hashes.ns = scheduler.ns;
  EXPECT_EQ(scheduler.client->hold(hashes).second, 1U);
  EXPECT_EQ(scheduler.client->lookups().last(hashes), 1U);
  EXPECT_EQ(scheduler.client->lower_tiers().act(protocol::Verb::kPrefetch, hashes, 5000)->found, 1U)
      << "larderd knows a whole one too";
  EXPECT_EQ(scheduler.client->lower_tiers().act(protocol::Verb::kPin, hashes, 5000)->absent, 1U);
  EXPECT_TRUE(first.load(1, 0, 1) && second.load(1, 1, 0) && second.load(1, 1, 1));

  const std::uint32_t attachments = scheduler.client->state().attachments;
  stop();
  start();
  ASSERT_TRUE(wait([&] {
    return scheduler.client->state().attachments > attachments && scheduler.await_open();
  }));
  EXPECT_TRUE(wait([&] { return scheduler.present(1); }))
      << "the next life of larderd knows the parts too";
}

// covers F-286
TEST_F(PartsTest, DropCompletesWithoutTheFirstPart) {
  start();
  Stage first(config_.socket, 1, false, kNoFullInFirst),
      second(config_.socket, 2, true, kNoFullInFirst);
  ASSERT_TRUE(first.await_open() && second.await_open());
  EXPECT_EQ(first.store(1, 0, 1) + second.store(1, 1, 0) + second.store(1, 1, 1), 3U);
  ASSERT_TRUE(wait([&] { return first.present(1); }));
  const std::uint32_t attachments = first.client->state().attachments;
  ASSERT_TRUE(first.client->drop_namespace().ok());
  EXPECT_TRUE(wait([&] { return !second.present(1); }));
  EXPECT_EQ(first.store(1, 0, 1) + second.store(1, 1, 0) + second.store(1, 1, 1), 3U);
  EXPECT_TRUE(wait([&] { return first.present(1); })) << "the drop is done";
  EXPECT_EQ(first.client->state().attachments, attachments) << "larderd ended the session";
}

// As with a rank on another node: each larderd has a part, and is asked for that alone.
TEST_F(PartsTest, ShardOfAnotherLarderdIsNotRequested) {
  start();
  Stage here(config_.socket, 0, true, {1, 1, 0, 0});
  ASSERT_TRUE(here.status.ok()) << here.status.to_string();
  ASSERT_TRUE(here.await_open());
  EXPECT_EQ(here.store(1, 0, 0) + here.store(1, 0, 1), 2U);
  EXPECT_TRUE(wait([&] { return here.present(1); }));
  EXPECT_FALSE(here.client->load(here.transfer(1, 1, 0), 5000).ok());
  Stage whole(config_.socket, 0, true, {});
  ASSERT_TRUE(whole.await_open());
  EXPECT_FALSE(whole.present(1)) << "other parts are another namespace";
}

// covers F-286
TEST_F(PartsTest, ContradictionsAreRefusedByName) {
  start();
  EXPECT_NE(Stage(config_.socket, 1, false, {0, 0, 0, 0})
                .status.text()
                .find("group 1 has 3 layers in shard 0"),
            std::string::npos);
  EXPECT_NE(
      Stage(config_.socket, 0, true, {0, 0, 0, 0}).status.text().find("no part of a chunk is left"),
      std::string::npos);
  EXPECT_NE(
      Stage(config_.socket, 1, true, kNoFullInFirst).status.text().find("group 0 has 2 layers"),
      std::string::npos);
  EXPECT_NE(Stage(config_.socket, 1, false, {1, 1, 1})
                .status.text()
                .find("4 shards and groups, got parts for 3"),
            std::string::npos);
  EXPECT_EQ(Stage(config_.socket, 1, false, {}).status.code(), Code::kFailedPrecondition)
      << "nobody told the parts";
  EXPECT_EQ(Stage(config_.socket, 0, false, {}).status.code(), Code::kOutOfRange)
      << "without a pipeline every shard has layers";
  Stage told(config_.socket, 1, false, kNoFullInFirst);
  EXPECT_EQ(told.client->set_parts(kNoFullInFirst).code(), Code::kFailedPrecondition);
  Client none({config_.socket, "none", 1}, copy::host_copy_engine());
  const Group full = Engine(kFullLayout).group(), window = Engine(kWindowLayout).group();
  EXPECT_EQ(
      none.set_namespace(spec_of(2, 1, {without_layers(full), without_layers(window)})).code(),
      Code::kOutOfRange);
  EXPECT_EQ(none.set_parts(kNoFullInFirst).code(), Code::kFailedPrecondition);
}

TEST_F(PartsTest, StatesHaveTheirOwnParts) {
  start();
  Client client({config_.socket, "states", 1}, copy::host_copy_engine());
  const Group full = Engine(kFullLayout).group(), state = Engine(kWindowLayout).group();
  ASSERT_TRUE(client.set_namespace(spec_of(2, 1, {full, without_layers(state)}, 1)).ok());
  ASSERT_TRUE(client.set_parts(std::vector<std::uint8_t>{1, 0, 1, 1}).ok());
  const Result<std::uint32_t> states =
      client.add_namespace(kText + "chunks: states\n", "", NamespaceKind::kStates);
  ASSERT_TRUE(states.ok()) << states.status().to_string();
  ASSERT_TRUE(client.wait_attached(5000).ok() && client.wait_namespace(*states, 5000).ok())
      << "the other shard has states";
  Client alone({config_.socket, "no states here", 1}, copy::host_copy_engine());
  ASSERT_TRUE(alone.set_namespace(spec_of(2, 1, {full, without_layers(state)}, 1)).ok());
  ASSERT_TRUE(alone.set_parts(std::vector<std::uint8_t>{1, 0, 1, 0}).ok());
  EXPECT_EQ(alone.add_namespace(kText, "", NamespaceKind::kStates).status().code(),
            Code::kInvalidArgument);
}

bool is_silent(FakeSession& session) {
  pollfd waited{session.peer().get(), POLLIN, 0};
  return ::poll(&waited, 1, 0) == 0;
}

// covers F-287
TEST(PartsOfOneClient, OlderLarderdGetsNoNamespaceWithParts) {
  NamespaceSpec spec = spec_of(2, 1, {{8192, 0, 4}, {4096, 3, 1}});
  LogRing log;
  Namespaces namespaces(spec, 0, &log);
  ASSERT_TRUE(namespaces.set_parts(kNoFullInFirst).ok());
  FakeSession old(protocol::kCapabilityAct, 7), now(protocol::kCapabilityAct, 8);
  namespaces.attached(old.attachment);
  ASSERT_TRUE(namespaces.add(kText, "").ok());
  EXPECT_TRUE(is_silent(old));
  EXPECT_NE(log.take().value_or("").find("larderd speaks protocol 1.7"), std::string::npos);
  namespaces.attached(now.attachment);
  EXPECT_FALSE(is_silent(now));
  EXPECT_FALSE(log.take());
}

TEST(PartsOfOneClient, PipelineWithEveryGroupInEachStageWorksWithOlderLarderd) {
  NamespaceSpec spec = spec_of(2, 1, {{8192, 2, 4}, {4096, 3, 1}});
  Namespaces namespaces(spec);
  ASSERT_TRUE(namespaces.set_parts(std::vector<std::uint8_t>{1, 1, 1, 1}).ok());
  FakeSession old(protocol::kCapabilityAct, 7);
  namespaces.attached(old.attachment);
  ASSERT_TRUE(namespaces.add(kText, "").ok());
  EXPECT_FALSE(is_silent(old));
}

}  // namespace
}  // namespace larder::client
