// A chunk of several shards and groups is there when all its parts are; a client's namespaces are
// apart; a drop reaches all namespaces.
#include "shim/client/namespaces.h"

#include <gtest/gtest.h>

#include "tests/unit/client/engine.h"
#include "tests/unit/client/fake_session.h"
#include "tests/unit/client/gated_clock.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::Engine;
using testing_support::FakeSession;
using testing_support::hash_of;
using testing_support::hashes_of;
using testing_support::kFullLayout;
using testing_support::kWindowLayout;
using testing_support::PageLayout;

constexpr std::uint16_t kGroups[] = {0, 1};

// One process of an engine with two KV groups, the second of which keeps one block of each chunk.
struct Process {
  Process(const std::string& socket, std::uint32_t shards, std::uint32_t layout_shard = 0,
          const PageLayout& first = kFullLayout,
          const std::string& fingerprint = "engine: made-up\n", std::uint32_t state_groups = 0)
      : full(first),
        window(kWindowLayout),
        client(std::make_unique<Client>(Options{socket, "process", 1}, copy::host_copy_engine())) {
    NamespaceSpec spec;
    spec.fingerprint = fingerprint;
    spec.shard_count = shards;
    spec.layout_shard = layout_shard;
    spec.chunk_tokens = 64;
    spec.groups = {full.group(), window.group()};
    spec.state_groups = state_groups;
    status = client->set_namespace(spec);
    if (status.ok()) status = client->register_pages(0, full.pages());
    if (status.ok()) status = client->register_pages(1, window.pages());
  }

  Engine& engine(std::uint16_t group) { return group == 0 ? full : window; }

  Transfer transfer(std::uint64_t hash, std::uint16_t shard, std::uint16_t group,
                    std::uint32_t ns) {
    return {ns, shard, group, 0, {hash_of(hash)}, {}, engine(group).chunk_pages(0)};
  }
  // Stored bytes differ by shard and group, as in engines.
  static protocol::BlockHash content(std::uint64_t hash, std::uint16_t shard, std::uint16_t group) {
    return hash_of(hash * 100 + shard * 10U + group);
  }
  // Only queues the commits: look-ups find the chunk after larderd has read the message.
  std::uint64_t store(std::uint64_t hash, std::uint16_t shard, std::uint16_t group,
                      std::uint32_t ns = 0) {
    engine(group).fill(0, content(hash, shard, group));
    EXPECT_TRUE(client->store_begin(transfer(hash, shard, group, ns)).ok());
    return client->store_finish(2000).stored;
  }
  bool load(std::uint64_t hash, std::uint16_t shard, std::uint16_t group, std::uint32_t ns = 0) {
    engine(group).wipe();
    const Result<std::uint64_t> ticket = client->load(transfer(hash, shard, group, ns), 5000);
    for (int i = 0; ticket.ok() && i < 10000; ++i) {
      for (const Completion& done : client->poll(1))
        return done.status == Code::kOk && engine(group).holds(0, content(hash, shard, group));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  bool present(std::uint64_t hash, std::uint32_t ns = 0) const {
    const std::vector<protocol::BlockHash> one{hash_of(hash)};
    Hashes hashes = hashes_of(one);
    hashes.ns = ns;
    return client->lookups().present(hashes) == 1;
  }

  Engine full, window;
  std::unique_ptr<Client> client;
  Status status;
};

class NamespacesTest : public loop::testing_support::SidecarTest {
 protected:
  NamespacesTest() { config_.memory.size_bytes = 32 << 20; }
  ~NamespacesTest() override { stop(); }  // before the clock goes

  testing_support::GatedClock gated_clock_;
};

// covers F-103
TEST_F(NamespacesTest, ChunkIsPresentWhenEveryShardAndGroupIs) {
  start();
  Process one(config_.socket, 2), other(config_.socket, 2);
  ASSERT_TRUE(one.status.ok()) << one.status.to_string();
  ASSERT_TRUE(one.client->wait_attached(5000).ok() && other.client->wait_attached(5000).ok());
  EXPECT_EQ(one.store(1, 0, 0) + one.store(1, 0, 1) + other.store(1, 1, 0), 3U);
  EXPECT_EQ(one.store(2, 0, 0) + one.store(2, 0, 1) + other.store(2, 1, 0) + other.store(2, 1, 1),
            4U);
  ASSERT_TRUE(wait([&] { return one.present(2); }));
  EXPECT_FALSE(one.present(1)) << "a part is missing";
  const std::vector<protocol::BlockHash> first{hash_of(1)}, second{hash_of(2)};
  EXPECT_EQ(one.client->hold(hashes_of(first)).second, 0U);
  EXPECT_EQ(one.client->hold(hashes_of(second)).second, 1U);
  for (const std::uint16_t group : kGroups)
    EXPECT_TRUE(one.load(2, 0, group) && other.load(2, 1, group)) << group;
}

TEST_F(NamespacesTest, PipelineShardsHaveTheirOwnLayers) {
  start();
  PageLayout longer = kFullLayout;
  longer.layers = 5;
  Process first(config_.socket, 2, 1), second(config_.socket, 2, 2, longer),
      scheduler(config_.socket, 2, 1);
  ASSERT_TRUE(first.client->wait_attached(5000).ok() && second.client->wait_attached(5000).ok());
  ASSERT_TRUE(scheduler.client->wait_attached(5000).ok());
  for (const std::uint16_t group : kGroups)
    EXPECT_EQ(first.store(1, 0, group) + second.store(1, 1, group), 2U);
  EXPECT_TRUE(wait([&] { return scheduler.present(1); }));
  for (const std::uint16_t group : kGroups)
    EXPECT_TRUE(first.load(1, 0, group) && second.load(1, 1, group)) << group;
  EXPECT_EQ(first.client->store_begin(first.transfer(2, 1, 0, 0)).code(), Code::kInvalidArgument)
      << "another's shard";
}

TEST_F(NamespacesTest, AddedNamespacesAreIsolatedAndReopenedAfterRestart) {
  start();
  Process process(config_.socket, 1);
  const std::uint32_t adapter = *process.client->add_namespace("engine: made-up\nadapter: a\n", "");
  EXPECT_EQ(adapter, 1U);
  EXPECT_EQ(*process.client->add_namespace("engine: made-up\nadapter: a\n", "again"), 1U);
  EXPECT_EQ(*process.client->add_namespace("engine: made-up\n", ""), 0U);
  ASSERT_TRUE(process.client->wait_attached(5000).ok());
  ASSERT_TRUE(wait([&] { return process.store(1, 0, 0, adapter) == 1; }))
      << "opened while the session runs";
  EXPECT_EQ(process.store(1, 0, 1, adapter), 1U);
  ASSERT_TRUE(wait([&] { return process.present(1, adapter); }));
  EXPECT_FALSE(process.present(1, 0));
  EXPECT_FALSE(process.present(1, 7)) << "no such namespace";
  EXPECT_TRUE(process.load(1, 0, 0, adapter));
  EXPECT_FALSE(process.load(1, 0, 0, 0));

  const std::uint32_t attachments = process.client->state().attachments;
  stop();
  start();
  ASSERT_TRUE(wait([&] { return process.client->state().attachments > attachments; }));
  ASSERT_TRUE(wait([&] { return process.store(2, 0, 0, adapter) == 1; }));
  EXPECT_EQ(process.store(2, 0, 1, adapter), 1U);
  EXPECT_TRUE(wait([&] { return process.present(2, adapter); }));
}

TEST_F(NamespacesTest, StatesHaveTheirOwnGroupsAndNamespace) {
  start();
  Process process(config_.socket, 1, 0, kFullLayout, "engine: made-up\n", 1);
  ASSERT_TRUE(process.status.ok()) << process.status.to_string();
  const std::string text = "engine: made-up\nchunks: states\n";
  const std::uint32_t states = *process.client->add_namespace(text, "", NamespaceKind::kStates);
  EXPECT_EQ(*process.client->add_namespace(text, "", NamespaceKind::kStates), states);
  EXPECT_EQ(process.client->add_namespace(text, "").status().code(), Code::kInvalidArgument)
      << "open with the other groups";
  ASSERT_TRUE(process.client->wait_attached(5000).ok() &&
              process.client->wait_namespace(states, 5000).ok());

  for (const std::uint64_t hash : {1, 2, 3, 4}) EXPECT_EQ(process.store(hash, 0, 0), 1U);
  EXPECT_EQ(process.store(3, 0, 1, states), 1U);
  EXPECT_EQ(process.client->store_begin(process.transfer(4, 0, 1, 0)).code(),
            Code::kInvalidArgument)
      << "no group of tokens";
  EXPECT_EQ(process.client->store_begin(process.transfer(4, 0, 0, states)).code(),
            Code::kInvalidArgument)
      << "no group of states";
  ASSERT_TRUE(wait([&] { return process.present(4) && process.present(3, states); }))
      << "each is whole with its own groups";
  EXPECT_FALSE(process.present(1, states));

  const std::vector<protocol::BlockHash> prompt{hash_of(1), hash_of(2), hash_of(3), hash_of(4)};
  Hashes hashes = hashes_of(prompt);
  EXPECT_EQ(process.client->lookups().last(hashes), 4U);
  hashes.ns = states;
  EXPECT_EQ(process.client->lookups().present(hashes), 0U);
  EXPECT_EQ(process.client->lookups().last(hashes), 3U);
  hashes.count = 2;
  EXPECT_EQ(process.client->lookups().last(hashes), 0U);
  EXPECT_TRUE(process.load(4, 0, 0) && process.load(3, 0, 1, states));
  ASSERT_EQ(process.store(1, 0, 1, states), 1U);
  ASSERT_TRUE(wait([&] { return process.present(1, states); }));
  hashes.count = 4;
  const Result<protocol::ActCounts> last =
      process.client->lower_tiers().act(protocol::Verb::kPrefetch, hashes, 5000);
  ASSERT_TRUE(last.ok()) << last.status().to_string();
  EXPECT_EQ(last->found, 1U) << "a prefetch of states is of the last one";
  hashes.ns = 0;
  EXPECT_EQ(process.client->lower_tiers().act(protocol::Verb::kPrefetch, hashes, 5000)->found, 4U);

  const std::uint32_t attachments = process.client->state().attachments;
  stop();
  start();
  ASSERT_TRUE(wait([&] { return process.client->state().attachments > attachments; }));
  EXPECT_TRUE(wait([&] {
    return process.present(3, states) || process.store(3, 0, 1, states) == 1;
  })) << "opened again";
  EXPECT_TRUE(wait([&] { return process.load(3, 0, 1, states); }));
}

TEST_F(NamespacesTest, ClientWithOnlyStatesIsRefused) {
  start();
  EXPECT_EQ(Process(config_.socket, 1, 0, kFullLayout, "engine: made-up\n", 2).status.code(),
            Code::kOutOfRange);
  Process tokens(config_.socket, 1);
  EXPECT_EQ(
      tokens.client->add_namespace("chunks: states\n", "", NamespaceKind::kStates).status().code(),
      Code::kInvalidArgument);
}

TEST_F(NamespacesTest, AClientAttachesBeforeItsFingerprintIsKnown) {
  start();
  Process process(config_.socket, 1, 0, kFullLayout, "");
  ASSERT_TRUE(process.status.ok()) << process.status.to_string();
  ASSERT_TRUE(process.client->wait_attached(5000).ok());
  EXPECT_FALSE(process.present(1)) << "number 0 is a miss";
  EXPECT_EQ(process.store(1, 0, 0), 0U);
  const std::uint32_t own = *process.client->add_namespace("engine: made-up\n", "");
  EXPECT_NE(own, 0U);
  ASSERT_TRUE(wait([&] {
    return process.store(1, 0, 0, own) + process.store(1, 0, 1, own) == 2 ||
           process.present(1, own);
  }));
  EXPECT_TRUE(wait([&] { return process.load(1, 0, 0, own) && process.load(1, 0, 1, own); }));

  const std::uint32_t attachments = process.client->state().attachments;
  stop();
  start();
  ASSERT_TRUE(wait([&] { return process.client->state().attachments > attachments; }))
      << "a session without a name comes back too";
  EXPECT_TRUE(wait([&] { return process.present(1, own) && process.load(1, 0, 0, own); }));
}

TEST_F(NamespacesTest, DropCoversNamespacesAddedLater) {
  start();
  Process old(config_.socket, 1), process(config_.socket, 1);
  const std::string text = "engine: made-up\nadapter: a\n";
  const std::uint32_t adapter = *old.client->add_namespace(text, "");
  ASSERT_TRUE(old.client->wait_attached(5000).ok() && process.client->wait_attached(5000).ok());
  ASSERT_TRUE(wait([&] { return old.store(1, 0, 0, adapter) == 1; }));
  EXPECT_EQ(old.store(1, 0, 1, adapter) + old.store(1, 0, 0) + old.store(1, 0, 1), 3U);
  ASSERT_TRUE(wait([&] { return old.present(1, adapter) && process.present(1); }));

  ASSERT_TRUE(process.client->drop_namespace().ok());
  EXPECT_FALSE(process.present(1));
  const std::uint32_t added = *process.client->add_namespace(text, "");
  EXPECT_FALSE(process.present(1, added));
  EXPECT_TRUE(wait([&] { return !old.present(1) && !old.present(1, adapter); }))
      << "dropped in larderd, not only hidden";
  ASSERT_TRUE(wait([&] { return process.store(1, 0, 0, added) == 1; }));
  EXPECT_EQ(process.store(1, 0, 1, added), 1U);
  EXPECT_TRUE(wait([&] { return process.present(1, added); }))
      << "a chunk stored after the drop is found";
}

// In the next packet; kError: no packet came.
protocol::MessageType next_type(FakeSession& session) {
  pollfd waited{session.peer().get(), POLLIN, 0};
  if (::poll(&waited, 1, 1000) != 1) return protocol::MessageType::kError;
  const Result<protocol::Packet> packet = protocol::receive_packet(session.peer().get());
  return protocol::Decoder::open(packet->bytes)->type();
}

// As when the control thread overtakes a call between its look at the session and its message.
TEST(NamespacesOfOneClient, NewSessionGetsMessagesAfterPreviousSessionClosed) {
  const NamespaceSpec spec{"engine: made-up\n", "", {}, 1, 0, 64, {{4096, 1, 1}}};
  Namespaces namespaces(spec);
  FakeSession before, now;
  namespaces.attached(before.attachment);
  before.attachment->outbox().close();
  namespaces.attached(now.attachment);

  namespaces.drop_all();
  EXPECT_EQ(next_type(now), protocol::MessageType::kDropNamespace);
  EXPECT_EQ(next_type(now), protocol::MessageType::kReserve) << "whose answer ends the drop";
  ASSERT_TRUE(namespaces.add("engine: made-up\nadapter: a\n", "").ok());
  EXPECT_EQ(next_type(now), protocol::MessageType::kOpenNamespace);
}

TEST_F(NamespacesTest, ChunksWithPendingDropAreNotLoaded) {
  start(gated_clock_);
  Process process(config_.socket, 1);
  ASSERT_TRUE(process.client->wait_attached(5000).ok());
  ASSERT_EQ(process.store(1, 0, 0), 1U);
  ASSERT_TRUE(wait([&] { return process.load(1, 0, 0); }));
  {
    const std::lock_guard closed(gated_clock_.gate);  // larderd is slow
    ASSERT_TRUE(process.client->drop_namespace().ok());
    EXPECT_FALSE(process.load(1, 0, 0));
  }
  EXPECT_TRUE(wait([&] { return process.store(1, 0, 0) == 1; }));
  EXPECT_TRUE(wait([&] { return process.load(1, 0, 0); }))
      << "and a chunk stored after the drop is";
}

TEST_F(NamespacesTest, NamespacesAreBoundedUntilOneIsClosed) {
  start();
  Process process(config_.socket, 1);
  for (std::uint32_t i = 1; i < protocol::kMaxClientNamespaces; ++i)
    ASSERT_TRUE(process.client->add_namespace("adapter: " + std::to_string(i), "").ok());
  const Status full = process.client->add_namespace("adapter: x", "").status();
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_NE(full.text().find("close one"), std::string::npos);
  ASSERT_TRUE(process.client->wait_attached(5000).ok());
  ASSERT_TRUE(process.client->close_namespace(7, false).ok());
  EXPECT_EQ(process.client->close_namespace(7, false).code(), Code::kNotFound);
  EXPECT_EQ(process.client->close_namespace(0, false).code(), Code::kInvalidArgument);
  const std::uint32_t number = *process.client->add_namespace("adapter: x", "");
  EXPECT_EQ(namespace_number_place(number), 7U);
  EXPECT_NE(number, 7U);
  ASSERT_TRUE(process.client->wait_namespace(number, 5000).ok());
  EXPECT_EQ(process.client->wait_namespace(7, 5000).code(), Code::kNotFound) << "at once";
}

// covers F-101
TEST_F(NamespacesTest, ClosedNamespaceIsAMissForEveryCall) {
  start();
  Process process(config_.socket, 1);
  ASSERT_TRUE(process.client->wait_attached(5000).ok());
  const std::string text = "engine: made-up\nadapter: a\n";
  const std::uint32_t closed = *process.client->add_namespace(text, "");
  ASSERT_TRUE(process.client->wait_namespace(closed, 5000).ok());
  EXPECT_EQ(process.store(1, 0, 0, closed) + process.store(1, 0, 1, closed), 2U);
  ASSERT_TRUE(wait([&] { return process.present(1, closed); }));
  ASSERT_TRUE(process.client->close_namespace(closed, false).ok());
  const std::uint32_t next = *process.client->add_namespace("engine: made-up\nadapter: b\n", "");
  ASSERT_TRUE(process.client->wait_namespace(next, 5000).ok());
  ASSERT_EQ(namespace_number_place(next), namespace_number_place(closed));
  EXPECT_EQ(process.store(2, 0, 0, next) + process.store(2, 0, 1, next), 2U);
  ASSERT_TRUE(wait([&] { return process.present(2, next); }));
  for (const std::uint64_t hash : {1U, 2U}) {
    const std::vector<protocol::BlockHash> one{hash_of(hash)};
    Hashes hashes = hashes_of(one);
    hashes.ns = closed;
    EXPECT_FALSE(process.present(hash, closed));
    EXPECT_FALSE(process.load(hash, 0, 0, closed));
    EXPECT_EQ(process.client->hold(hashes).second, 0U);
    EXPECT_EQ(process.client->lookups().reachable(hashes), 0U);
    EXPECT_FALSE(process.client->lower_tiers().act(protocol::Verb::kPin, hashes, 1000).ok());
    EXPECT_FALSE(process.client->lower_tiers().fetch(hashes, 1000).ok());
    EXPECT_EQ(process.store(hash + 10, 0, 0, closed), 0U);
  }
  EXPECT_FALSE(process.present(1, next)) << "nor does the next namespace see its chunks";
  const std::uint32_t again = *process.client->add_namespace(text, "");
  ASSERT_TRUE(process.client->wait_namespace(again, 5000).ok());
  EXPECT_TRUE(process.load(1, 0, 0, again)) << "its chunks stayed in larderd";
  ASSERT_TRUE(process.client->close_namespace(again, true).ok());
  EXPECT_TRUE(wait([&] { return stats().slots_committed == 2; })) << "dropped from memory";
  EXPECT_TRUE(process.present(2, next));
}

// Faster than larderd answers: a namespace closed before its answer is gone, and the same text gets
// another number.
TEST_F(NamespacesTest, NamespaceClosedBeforeTheAnswerIsClosedAtLarderd) {
  start(gated_clock_);
  Process process(config_.socket, 1);
  ASSERT_TRUE(process.client->wait_attached(5000).ok());
  std::uint32_t last = 0;
  {
    const std::lock_guard closed(gated_clock_.gate);  // larderd is slow
    for (int i = 0; i < 50; ++i) {
      last = *process.client->add_namespace("engine: made-up\nadapter: a\n", "");
      EXPECT_TRUE(i == 49 || process.client->close_namespace(last, true).ok());
    }
  }
  ASSERT_TRUE(process.client->wait_namespace(last, 5000).ok());
  EXPECT_EQ(process.store(1, 0, 0, last), 1U);
  // The chunk is stored once: a late drop would take it for ever.
  EXPECT_TRUE(wait([&] { return process.load(1, 0, 0, last); })) << "when its commit has arrived";
  ASSERT_TRUE(process.client->close_namespace(last, true).ok());
  EXPECT_TRUE(wait([&] { return stats().namespaces.size() == 1; }));
}

// An answer to a drop of the place's previous namespace says no word about the present one.
TEST(NamespacesOfOneClient, DropAnswerOfClosedNamespaceDoesNotReleaseTheNext) {
  const NamespaceSpec spec{"engine: made-up\n", "", {}, 1, 0, 64, {{4096, 1, 1}}};
  Namespaces namespaces(spec);
  FakeSession session;
  namespaces.attached(session.attachment);
  const std::uint32_t first = *namespaces.add("adapter: a", "");
  session.receive_one<protocol::OpenNamespace>(protocol::MessageType::kOpenNamespace);
  namespaces.opened(*session.attachment, 1U << 30 | first, 5);
  namespaces.drop_all();
  std::uint32_t own = 0, fence = 0;
  session.receive_one<protocol::DropNamespace>(protocol::MessageType::kDropNamespace);
  session.receive<protocol::Reserve, protocol::BlockHash>(protocol::MessageType::kReserve, &own);
  session.receive_one<protocol::DropNamespace>(protocol::MessageType::kDropNamespace);
  session.receive<protocol::Reserve, protocol::BlockHash>(protocol::MessageType::kReserve, &fence);
  ASSERT_TRUE(namespaces.close(first, false).ok());
  const std::uint32_t next = *namespaces.add("adapter: b", "");
  ASSERT_EQ(namespace_number_place(next), namespace_number_place(first));
  EXPECT_TRUE(namespaces.drop_pending(next));
  EXPECT_TRUE(namespaces.fence_passed(fence));
  EXPECT_TRUE(namespaces.drop_pending(next)) << "the drop is still due";
  EXPECT_TRUE(namespaces.fence_passed(own));
  EXPECT_FALSE(namespaces.drop_pending(0));
}

// An older larderd (protocol 1.5) knows no CLOSE_NAMESPACE; the client's own places are used again
// all the same.
TEST(NamespacesOfOneClient, OlderLarderdGetsNoCloseMessage) {
  const NamespaceSpec spec{"engine: made-up\n", "", {}, 1, 0, 64, {{4096, 1, 1}}};
  Namespaces namespaces(spec);
  FakeSession session;
  namespaces.attached(session.attachment);
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t number = *namespaces.add("adapter: " + std::to_string(i), "");
    EXPECT_EQ(next_type(session), protocol::MessageType::kOpenNamespace);
    ASSERT_TRUE(namespaces.close(number, true).ok());
    EXPECT_TRUE(session.silent());
  }
}

TEST(NamespacesOfOneClient, PlaceIsRetiredAfterItsLastNumber) {
  const NamespaceSpec spec{"engine: made-up\n", "", {}, 1, 0, 64, {{4096, 1, 1}}};
  Namespaces namespaces(spec, (1U << (30 - kNamespacePlaceBits)) - 1);
  for (std::uint32_t i = 1; i < protocol::kMaxClientNamespaces; ++i) {
    const std::uint32_t number = *namespaces.add("adapter: a", "");
    EXPECT_LT(number, 1U << 30);
    EXPECT_EQ(namespace_number_place(number), i);
    ASSERT_TRUE(namespaces.close(number, false).ok());
  }
  EXPECT_EQ(namespaces.add("adapter: a", "").status().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace larder::client
