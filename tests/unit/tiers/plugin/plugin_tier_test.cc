// The plug-in tier beside a plug-in that keeps the contract.
#include "sidecar/tiers/plugin/drops.h"
#include "sidecar/tiers/plugin/removals.h"
#include "tests/unit/tiers/plugin/plugin_fixture.h"

namespace larder::plugin::testing_support {
namespace {

class PluginTierTest : public PluginFixture {};

TEST_F(PluginTierTest, ChunkIsStoredInTheServiceAndReadBack) {
  open();
  EXPECT_TRUE(tier->state().degraded());
  EXPECT_NE(tier->state().reason.find("no plug-in is connected at "), std::string::npos);
  const auto fake = connect();
  EXPECT_EQ(fake->url(), "plugin://somewhere");
  EXPECT_EQ(fake->region_bytes(), options.region_bytes);
  EXPECT_EQ(tier->state().mode, "fake 1.2");
  const Ticket stored = put(7, 3);
  fake->serve();
  EXPECT_EQ(ended(stored), Code::kOk);
  EXPECT_EQ(fake->objects.begin()->first, key(7));
  EXPECT_EQ(fake->objects.begin()->second, object_of(7, 3));
  const Ticket got = get(7);
  fake->serve();
  EXPECT_EQ(ended(got), Code::kOk);
  EXPECT_TRUE(holds(last_slot(), 7, facts));
}

TEST_F(PluginTierTest, AnObjectOfAnotherLarderdIsFoundAndRead) {
  open();
  const auto fake = connect();
  fake->objects[key(1)] = object_of(1, 9);
  const std::vector<tiers::ChunkKey> keys{key_of(1), key_of(2)};
  const auto probe = [&] {
    const Ticket ticket = loop->next();
    EXPECT_TRUE(tier->probe(ticket, keys, loop->in_ms(5000)).ok());
    fake->serve();
    return loop->done(ticket).value_or(tiers::Message{}).there;
  };
  EXPECT_EQ(probe(), (std::vector<bool>{false, false})) << "of an unknown size";
  tier->expect(key_of(1), kPayload, kPiece);
  EXPECT_EQ(probe(), (std::vector<bool>{true, false}));
  EXPECT_EQ(tier->probe(key_of(1)).value_or(tiers::ChunkFacts{}).payload_bytes, kPayload);
  const Ticket got = get(1);
  fake->serve();
  EXPECT_EQ(ended(got), Code::kOk);
  EXPECT_EQ(tier->probe(key_of(1)).value_or(tiers::ChunkFacts{}).generation, 9U);
}

// The plug-in may leave an object at the key as it was.
TEST_F(PluginTierTest, APutComparesAnExistingObjectAndReplacesADifferentOne) {
  open();
  const auto fake = connect();
  fake->replaces = false;
  fake->objects[key(1)] = object_of(1, 2);
  const Ticket same = put(1, 2);
  fake->serve();  // PUT: there already
  fake->serve();  // GET
  EXPECT_EQ(ended(same), Code::kOk);
  EXPECT_EQ(tier->counters().puts_present, 1U);
  const Ticket other = put(1, 3);
  for (const char* step : {"PUT", "GET", "REMOVE", "PUT"}) {
    SCOPED_TRACE(step);
    fake->serve();
  }
  EXPECT_EQ(ended(other), Code::kOk);
  EXPECT_EQ(fake->objects[key(1)], object_of(1, 3));
}

TEST_F(PluginTierTest, ManyCallsAreOpenAtOnceAndAnsweredInAnyOrder) {
  open();
  const auto fake = connect();
  std::vector<Ticket> tickets;
  for (std::uint64_t i = 0; i < 8; ++i) tickets.push_back(put(i));
  std::vector<AskedEntry> entries;
  while (entries.size() < 8)
    for (const AskedEntry& entry : fake->receive().entries) entries.push_back(entry);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) fake->done(entry->ticket);
  for (const Ticket ticket : tickets) EXPECT_EQ(ended(ticket), Code::kOk);
}

TEST_F(PluginTierTest, ADropWaitsForAnOpenPutOfTheNamespace) {
  open();
  const auto fake = connect();
  const Ticket stored = put(1);
  const Asked asked = fake->receive();
  const Ticket dropped = loop->next();
  ASSERT_TRUE(tier->drop_namespace(dropped, key_of(1).namespace_id, loop->in_ms(5000)).ok());
  EXPECT_TRUE(fake->quiet());
  fake->done(asked.entries.at(0).ticket);
  EXPECT_EQ(ended(stored), Code::kNotFound) << "dropped meanwhile";
  const Asked clear = fake->receive();
  EXPECT_EQ(clear.kind, Kind::kClear);
  EXPECT_EQ(clear.text, namespace_prefix(options.prefix, key_of(1).namespace_id));
  fake->done(clear.ticket, Outcome::kOk, 1);
  EXPECT_EQ(loop->done(dropped).value_or(tiers::Message{}).dropped, 1U);
}

TEST_F(PluginTierTest, FailedDropIsRetried) {
  open();
  const auto fake = connect();
  const Ticket dropped = loop->next();
  ASSERT_TRUE(tier->drop_namespace(dropped, key_of(1).namespace_id, loop->in_ms(5000)).ok());
  fake->done(fake->receive().ticket, Outcome::kUnavailable);
  EXPECT_EQ(ended(dropped), Code::kUnavailable);
  const Asked again = fake->receive();
  EXPECT_EQ(again.kind, Kind::kClear);
  fake->done(again.ticket);
}

// Without a plug-in each drop ends at its deadline, and waits to be done.
TEST_F(PluginTierTest, DropsOverTheLimitAreAcceptedOnceEarlierOnesAreDone) {
  open();
  std::vector<Ticket> drops;
  const auto drop = [&](std::uint64_t ms) {
    const Ticket ticket = loop->next();
    const protocol::NamespaceId id = key_of(1, ticket).namespace_id;
    const Code taken = tier->drop_namespace(ticket, id, loop->in_ms(ms)).code();
    if (taken == Code::kOk) drops.push_back(ticket);
    return taken;
  };
  while (drops.size() < 4 * Drops::kMost && drop(1) == Code::kOk) continue;
  EXPECT_EQ(ended(drops.back()), Code::kDeadlineExceeded);
  EXPECT_GE(drops.size(), Drops::kMost);
  EXPECT_TRUE(tier->flush(loop->next(), loop->in_ms(1)).ok()) << "other operations have room";
  EXPECT_EQ(drop(1), Code::kResourceExhausted);
  const auto fake = connect();
  const auto accepted = [&] {
    fake->serve();
    return drop(5000) == Code::kOk;
  };
  EXPECT_TRUE(test::eventually(accepted));
}

TEST_F(PluginTierTest, EvictionsOverTheLimitAreAcceptedOnceEarlierOnesAreDone) {
  open();
  const auto fake = connect();
  std::uint64_t number = 0;
  const auto refused = [&] {
    for (std::size_t i = 0; i < Removals::kMost; ++i)
      if (const Status status = tier->evict(key_of(++number)); !status.ok())
        return status.code() == Code::kResourceExhausted;
    return false;
  };
  EXPECT_TRUE(test::eventually(refused));
  EXPECT_GE(number, Removals::kMost);
  const auto accepted = [&] {
    fake->serve();
    return tier->evict(key_of(++number)).ok();
  };
  EXPECT_TRUE(test::eventually(accepted));
}

// covers F-342
TEST_F(PluginTierTest, UnreachableServiceIsReported) {
  open();
  const auto fake = connect();
  fake->state(false, false, "master 10.0.0.1 refuses\n");
  ASSERT_TRUE(away());
  EXPECT_EQ(tier->state().reason, "master 10.0.0.1 refuses\\x0a");
  EXPECT_EQ(tier->state().servers, 2U);
  EXPECT_EQ(tier->state().servers_reachable, 1U);
  fake->state(true, true, "");
  EXPECT_TRUE(well());
}

TEST_F(PluginTierTest, FullServiceGetsTheChunkLater) {
  open();
  const auto fake = connect();
  const Ticket stored = put(1);
  fake->done(fake->receive().entries.at(0).ticket, Outcome::kFull);
  EXPECT_EQ(ended(stored), Code::kResourceExhausted);
}

TEST_F(PluginTierTest, ChunkEvictedByTheServiceIsAMiss) {
  open();
  const auto fake = connect();
  const Ticket stored = put(1);
  fake->serve();
  EXPECT_EQ(ended(stored), Code::kOk);
  fake->objects.clear();
  const Ticket got = get(1);
  fake->serve();
  EXPECT_EQ(ended(got), Code::kNotFound);
  EXPECT_EQ(tier->counters().chunks_evicted, 1U);
  EXPECT_FALSE(tier->probe(key_of(1)).has_value());
}

TEST_F(PluginTierTest, WrongOptionsAreReported) {
  options.prefix = "a b";
  EXPECT_NE(open_plugin_tier(clock, options).status().text().find("backend.prefix"),
            std::string::npos);
  options.prefix = "larder";
  options.region_bytes = 1 << 20;
  EXPECT_NE(open_plugin_tier(clock, options).status().text().find("backend.plugin_region"),
            std::string::npos);
  options.region_bytes = 32 << 20;
  options.socket = "/proc/nowhere/x.plugin";
  EXPECT_NE(open_plugin_tier(clock, options).status().text().find("backend.plugin_socket"),
            std::string::npos);
}

}  // namespace
}  // namespace larder::plugin::testing_support
