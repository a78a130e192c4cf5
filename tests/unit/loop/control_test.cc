// The admin side: snapshots, drop and clear; and the effect of events on them.
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop::testing_support {
namespace {

using protocol::EventKind;

void write_event(protocol::SessionRegion& region, EventKind kind, std::uint32_t slot,
                 std::uint64_t generation, std::uint64_t a, std::uint64_t b = 0,
                 std::uint64_t c = 0, std::uint64_t d = 0, std::uint64_t flags = 0) {
  const std::uint64_t position = region.event_head.load();
  protocol::Event& event = region.events[position % protocol::kEventSlots];
  event.sequence = 0;
  event.kind_slot = protocol::pack_halves(static_cast<std::uint32_t>(kind), slot);
  event.generation = generation;
  event.a = a;
  event.b = b;
  event.c = c;
  event.d = d;
  event.flags = flags;
  event.sequence = position + 1;
  region.event_head = position + 1;
}

class ControlTest : public SidecarTest {
 protected:
  void SetUp() override {
    start();
    client_ = std::make_unique<Client>(config_.socket);
    client_->attach();
    handle_ = client_->open_namespace("a: 1\n");
  }
  void put(std::uint64_t n) {
    const auto grants = client_->reserve(handle_, {{n, n}});
    client_->commit(grants.at(0), n);
  }
  bool has(std::uint64_t n) { return client_->index().find({{n, n}, handle_, 0, 0}).has_value(); }

  std::unique_ptr<Client> client_;
  std::uint32_t handle_ = 0;
};

TEST_F(ControlTest, SnapshotsShowTheContents) {
  put(1);
  ASSERT_TRUE(wait([&] { return stats().slots_committed == 1; }));
  const stats::Stats now = stats();
  EXPECT_EQ(now.arena_bytes, 1U << 20);
  ASSERT_EQ(now.slot_sizes.size(), 1U);
  EXPECT_EQ(now.slot_sizes[0].slot_bytes, 12288U);
  EXPECT_EQ(now.used_bytes, 8192U);
  EXPECT_EQ(now.slot_sizes[0].slots * 12288 + now.unused_bytes, now.touched_bytes);
  ASSERT_EQ(now.namespaces.size(), 1U);
  EXPECT_EQ(now.namespaces[0].model, "test-model");
  EXPECT_EQ(now.namespaces[0].sessions, 1U);
  EXPECT_EQ(*now.namespaces[0].fingerprint, "a: 1\n");
  ASSERT_EQ(now.sessions.size(), 1U);
  EXPECT_EQ(now.sessions[0].engine, "test engine");
  EXPECT_EQ(now.sessions[0].namespace_id, now.namespaces[0].id);
  EXPECT_TRUE(sidecar_->healthy());
  EXPECT_TRUE(sidecar_->ready());
}

// The stores of one step of many requests: all are sent before the engine's control thread runs.
// The socket alone would not hold the answers.
TEST_F(ControlTest, ABurstOfRequestsIsAnsweredInOrder) {
  constexpr std::uint32_t kRequests = 400;
  for (std::uint32_t request = 0; request < kRequests; ++request) {
    protocol::Encoder encoder(MessageType::kReserve, request);
    encoder.append(protocol::Reserve{handle_, 0, 0, 1, 0}).append(protocol::BlockHash{request, 1});
    Status sent;
    ASSERT_TRUE(
        wait([&] { return (sent = client_->send(encoder)).code() != Code::kResourceExhausted; }));
    ASSERT_TRUE(sent.ok()) << sent.to_string();
  }
  EXPECT_TRUE(wait([&] { return stats().reserve.total() == kRequests; }));
  for (std::uint32_t request = 0; request < kRequests; ++request) {
    Result<protocol::Packet> packet = client_->receive();
    ASSERT_TRUE(packet.ok()) << request << ": " << packet.status().to_string();
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    ASSERT_TRUE(decoder.ok() && decoder->type() == MessageType::kGranted);
    ASSERT_EQ(decoder->request(), request);
  }
  EXPECT_EQ(client_->reserve(handle_, {{1000, 1}}).size(), 1U);
}

// Snapshots are made every tick and fingerprints may be long.
TEST_F(ControlTest, SnapshotsShareTheFingerprint) {
  ASSERT_TRUE(wait([&] { return stats().namespaces.size() == 1; }));
  const stats::Stats before = stats();
  clock_.advance_ms(1);
  ASSERT_TRUE(wait([&] { return stats().uptime_ms > before.uptime_ms; }));
  EXPECT_EQ(stats().namespaces[0].fingerprint, before.namespaces[0].fingerprint);
}

TEST_F(ControlTest, DropAcceptsAPrefixAndClearDropsAll) {
  put(1);
  ASSERT_TRUE(wait([&] { return has(1); }));
  EXPECT_EQ(sidecar_->drop_namespace("zz", 1000).status().code(), Code::kInvalidArgument);
  const Result<std::uint64_t> dropped =
      sidecar_->drop_namespace(protocol::namespace_id("a: 1\n").to_hex().substr(0, 6), 1000);
  ASSERT_TRUE(dropped.ok()) << dropped.status().to_string();
  EXPECT_EQ(*dropped, 1U);
  EXPECT_FALSE(has(1));
  put(2);
  ASSERT_TRUE(wait([&] { return has(2); })) << "the namespace's handle stays good";
  EXPECT_EQ(*sidecar_->clear(1000), 1U);
  EXPECT_FALSE(has(2));
}

TEST_F(ControlTest, AnEngineDropsItsOwnNamespace) {
  put(1);
  protocol::Encoder encoder(MessageType::kDropNamespace, 0);
  encoder.append(protocol::DropNamespace{handle_, 0});
  ASSERT_TRUE(client_->send(encoder).ok());
  EXPECT_TRUE(wait([&] { return stats().evicted_dropped == 1; }));
  EXPECT_FALSE(has(1));
}

TEST_F(ControlTest, BadChunkIsDroppedAndVerified) {
  put(1);
  ASSERT_TRUE(wait([&] { return has(1); }));
  const auto view = client_->index().find({{1, 1}, handle_, 0, 0});
  client_->send_slot(MessageType::kBad, view->slot, view->generation);
  EXPECT_TRUE(wait([&] { return stats().bad_reported == 1 && stats().bad_confirmed == 1; }));
  EXPECT_FALSE(has(1));
  put(1);
  EXPECT_TRUE(wait([&] { return has(1); })) << "stored anew";
}

TEST_F(ControlTest, AnEngineEvictsPinsPrefetchesAndDemotesByHash) {
  using protocol::Verb;
  put(1);
  put(2);
  ASSERT_TRUE(wait([&] { return has(1) && has(2); }));
  EXPECT_EQ(client_->welcome().capabilities & protocol::kCapabilityAct, protocol::kCapabilityAct);
  const protocol::Acted pinned = client_->act(handle_, Verb::kPin, {{1, 1}, {2, 2}, {3, 3}});
  EXPECT_EQ(pinned.verb, static_cast<std::uint32_t>(Verb::kPin));
  EXPECT_EQ(pinned.found, 2U);
  EXPECT_EQ(pinned.absent, 1U);
  EXPECT_EQ(client_->act(handle_, Verb::kEvict, {{1, 1}}).found, 1U);
  EXPECT_FALSE(has(1));
  EXPECT_EQ(client_->act(handle_, Verb::kUnpin, {{1, 1}, {2, 2}}).found, 1U);
  EXPECT_EQ(client_->act(handle_, Verb::kPrefetch, {{1, 1}, {2, 2}}).found, 1U);
  EXPECT_EQ(client_->act(handle_, Verb::kDemote, {{1, 1}, {2, 2}, {3, 3}}).found, 1U);
  EXPECT_TRUE(wait([&] {
    const stats::Stats now = stats();
    return now.asked_to_pin == 3 && now.asked_to_evict == 1 && now.asked_to_unpin == 2 &&
           now.asked_to_prefetch == 2 && now.asked_to_demote == 3;
  }));
}

TEST_F(ControlTest, AdminVerbsWorkByNamespaceId) {
  using protocol::Verb;
  put(1);
  ASSERT_TRUE(wait([&] { return has(1); }));
  const std::string id = protocol::namespace_id("a: 1\n").to_hex();
  const Result<protocol::ActCounts> evicted =
      sidecar_->act(Verb::kEvict, id.substr(0, 8), {{1, 1}, {2, 2}}, 1000);
  ASSERT_TRUE(evicted.ok()) << evicted.status().to_string();
  EXPECT_EQ(evicted->found, 1U);
  EXPECT_EQ(evicted->absent, 1U);
  EXPECT_FALSE(has(1));
  EXPECT_EQ(sidecar_->act(Verb::kPin, "zzzz", {}, 1000).status().code(), Code::kInvalidArgument);
}

class StatesTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    states_ = client_->open_namespace("a: 1\nchunks: states\n", 4096, nullptr, 3);
  }
  void put_state(std::uint64_t n) {
    const auto grants = client_->reserve(states_, {{n, n}});
    client_->commit(grants.at(0), n);
    ASSERT_TRUE(wait([&] { return has_state(n); }));
  }
  bool has_state(std::uint64_t n) {
    return client_->index().find({{n, n}, states_, 0, 0}).has_value();
  }

  const std::string id_ = protocol::namespace_id("a: 1\n").to_hex();
  std::uint32_t states_ = 0;
};

TEST_F(StatesTest, StatesAreDroppedWithTheirNamespace) {
  put(1);
  put_state(1);
  put_state(2);
  ASSERT_TRUE(wait([&] { return has(1); }));
  const Result<std::uint64_t> dropped = sidecar_->drop_namespace(id_, 1000);
  ASSERT_TRUE(dropped.ok()) << dropped.status().to_string();
  EXPECT_EQ(*dropped, 3U);
  EXPECT_FALSE(has(1) || has_state(1) || has_state(2));
  put(1);
  put_state(1);
  ASSERT_TRUE(
      sidecar_->drop_namespace(protocol::namespace_id("a: 1\nchunks: states\n").to_hex(), 1000)
          .ok());
  EXPECT_FALSE(has_state(1));
  EXPECT_TRUE(has(1)) << "a drop of states alone";
}

TEST_F(StatesTest, AdminVerbsCoverTheLastState) {
  using protocol::Verb;
  for (const std::uint64_t n : {1, 2, 3}) put(n);
  for (const std::uint64_t n : {1, 2}) put_state(n);
  ASSERT_TRUE(wait([&] { return has(3); }));
  const std::vector<protocol::BlockHash> prompt{{1, 1}, {2, 2}, {3, 3}};
  const Result<protocol::ActCounts> pinned = sidecar_->act(Verb::kPin, id_, prompt, 1000);
  ASSERT_TRUE(pinned.ok()) << pinned.status().to_string();
  EXPECT_EQ(pinned->found, 3U) << "the counts are those of the prompt's chunks";
  EXPECT_EQ(pinned->absent, 0U);
  EXPECT_TRUE(wait([&] { return stats().slots_pinned == 4; })) << "three chunks and the last state";
  EXPECT_EQ(sidecar_->act(Verb::kUnpin, id_, prompt, 1000)->found, 3U);
  EXPECT_TRUE(wait([&] { return stats().slots_pinned == 0; }));
  EXPECT_EQ(sidecar_->act(Verb::kPrefetch, id_, prompt, 1000)->found, 3U);
  EXPECT_EQ(sidecar_->act(Verb::kEvict, id_, prompt, 1000)->found, 3U);
  EXPECT_FALSE(has_state(1) || has_state(2));
}

TEST_F(StatesTest, AdminVerbsSkipStatesBehindAMissingChunk) {
  using protocol::Verb;
  for (const std::uint64_t n : {1, 3}) put(n);
  for (const std::uint64_t n : {1, 3}) put_state(n);
  ASSERT_TRUE(wait([&] { return has(3); }));
  EXPECT_EQ(sidecar_->act(Verb::kPin, id_, {{1, 1}, {2, 2}, {3, 3}}, 1000)->found, 2U);
  EXPECT_TRUE(wait([&] { return stats().slots_pinned == 3; }));
  EXPECT_EQ(sidecar_->act(Verb::kUnpin, id_, {{1, 1}}, 1000)->found, 1U);
  EXPECT_TRUE(wait([&] { return stats().slots_pinned == 1; }))
      << "the first state was pinned, not the last";
}

TEST_F(ControlTest, NearestNamespaceIsReported) {
  std::string difference;
  client_->open_namespace("a: 2\n", 4096, &difference);
  EXPECT_EQ(difference, "differs from namespace " +
                            protocol::namespace_id("a: 1\n").to_hex().substr(0, 8) +
                            " in: a: 1 -> 2");
}

TEST_F(ControlTest, EventsBecomeStatistics) {
  protocol::SessionRegion& region = client_->region();
  write_event(region, EventKind::kRequest, 0, 0, 4096, 3840, 5000);
  // and the additions of a later minor version
  write_event(region, EventKind::kRequest, 0, 0, 100, 0, 5000, 4, protocol::kRequestSalted | 6);
  write_event(region, EventKind::kLoad, 0, 0, 1000, 256, 2'000'000, 1'000'000);
  write_event(region, EventKind::kStore, 0, 0, 2000, 256, 1000);
  write_event(region, EventKind::kLoadFailed, 0, 0, 1);
  write_event(region, EventKind::kPrefill, 0, 0, 256, 1'000'000);
  write_event(region, static_cast<EventKind>(77), 0, 0, 1);  // of a later minor version
  ASSERT_TRUE(
      wait([&] { return !stats().models.empty() && stats().models[0].prefill_tokens == 256; }));
  const stats::Stats now = stats();
  const stats::ModelStats& model = now.models[0];
  EXPECT_EQ(model.model, "test-model");
  EXPECT_EQ(model.requests, 2U);
  EXPECT_EQ(model.requests_hit, 1U);
  EXPECT_EQ(model.requests_short, 1U);
  EXPECT_EQ(model.requests_salted, 1U);
  EXPECT_EQ(model.tokens_asked, 4196U);
  EXPECT_EQ(model.tokens_hit, 3840U);
  EXPECT_EQ(model.bytes_loaded, 1000U);
  EXPECT_EQ(model.bytes_stored, 2000U);
  EXPECT_EQ(now.lookup.total(), 2U);
  EXPECT_EQ(now.load_wait.sum(), 2'000'000U);
  EXPECT_EQ(now.load_copy.sum(), 1'000'000U);
  EXPECT_EQ(now.store_copy.total(), 1U);
  EXPECT_EQ(now.loads_failed, 1U);
  EXPECT_EQ(now.checksum_failures, 1U);
  EXPECT_EQ(now.events_lost, 0U);
}

// As a client of 1.4 tells of a request: the hashes, then the request.
void ask(protocol::SessionRegion& region, std::uint32_t handle,
         const std::vector<std::uint64_t>& hashes, std::uint64_t hit = 0,
         std::uint64_t decision = 4) {
  for (std::uint32_t i = 0; i < hashes.size(); i += 4) {
    std::vector<std::uint64_t> part(hashes.begin() + i,
                                    hashes.begin() + std::min<std::size_t>(hashes.size(), i + 4));
    const auto count = static_cast<std::uint32_t>(part.size());
    part.resize(4);
    write_event(region, EventKind::kAsked, handle, protocol::pack_halves(i, count), part[0],
                part[1], part[2], part[3]);
  }
  write_event(region, EventKind::kRequest, handle, hashes.size(), hashes.size() * 256, hit, 1000,
              decision);
}

TEST_F(ControlTest, RequestedHashesReachEstimateAndTrace) {
  EXPECT_TRUE(sidecar_->trace(std::nullopt).requests.empty());
  protocol::SessionRegion& region = client_->region();
  ask(region, handle_, {1, 2, 3, 4, 5, 6});
  ask(region, handle_, {1, 2, 3, 4, 5, 6}, 6 * 256, 1);
  ASSERT_TRUE(wait([&] { return stats().estimate.chunks_asked == 12; }));
  const stats::Stats now = stats();
  for (const stats::EstimatedHit& hit : now.estimate.hits)
    EXPECT_NEAR(hit.ratio, 0.5, 0.01) << hit.size;
  EXPECT_EQ(now.decisions[0], 1U) << "load";
  EXPECT_EQ(now.decisions[3], 1U) << "absent";
  const stats::TracePage page = sidecar_->trace(0);
  ASSERT_EQ(page.requests.size(), 2U);
  EXPECT_EQ(page.requests[0].chunks.size(), 6U);
  EXPECT_EQ(page.requests[0].chunks, page.requests[1].chunks);
  EXPECT_EQ(page.requests[0].chunk_bytes, 12288U) << "the whole slot";
  EXPECT_EQ(page.requests[0].model, "test-model");
  EXPECT_EQ(page.requests[1].tokens_hit, 6U * 256);
  EXPECT_TRUE(sidecar_->trace(page.next).requests.empty());
}

TEST_F(ControlTest, EstimateSeesAdminAndEngineDrops) {
  protocol::SessionRegion& region = client_->region();
  const std::vector<std::uint64_t> prompt{1, 2, 3, 4};
  std::uint64_t asked = 0;
  const auto ask_again = [&] {
    ask(region, handle_, prompt);
    asked += prompt.size();
    ASSERT_TRUE(wait([&] { return stats().estimate.chunks_asked == asked; }));
  };
  ask_again();
  ask_again();
  const std::string id = protocol::namespace_id("a: 1\n").to_hex();
  ASSERT_TRUE(sidecar_->drop_namespace(id, 10'000).ok());
  ask_again();
  ASSERT_TRUE(sidecar_->clear(10'000).ok());
  ask_again();
  protocol::Encoder drop(protocol::MessageType::kDropNamespace, 0);
  ASSERT_TRUE(client_->send(drop.append(protocol::DropNamespace{handle_, 0})).ok());
  put(9);  // is answered when the drop is done
  ask_again();
  ask_again();
  for (const stats::EstimatedHit& hit : stats().estimate.hits)
    EXPECT_NEAR(hit.ratio, 2.0 / 6, 0.001) << hit.size;
}

// Each of these would falsify the estimate for all.
TEST_F(ControlTest, IncompleteOrForeignRequestsAreIgnored) {
  protocol::SessionRegion& region = client_->region();
  ask(region, handle_ + 1, {1, 2});  // a namespace that this session has not opened
  // the first four are lost
  write_event(region, EventKind::kAsked, handle_, protocol::pack_halves(4, 4), 5, 6, 7, 8);
  write_event(region, EventKind::kRequest, handle_, 8, 8 * 256, 0, 1000, 4);
  write_event(region, EventKind::kAsked, handle_, protocol::pack_halves(0, 77), 5, 6, 7, 8);
  write_event(region, EventKind::kRequest, handle_, 77, 77 * 256, 0, 1000, 99);
  write_event(region, EventKind::kRequest, 0, 0, 512, 0, 1000);  // of an older engine
  ASSERT_TRUE(wait([&] { return stats().lookup.total() == 4; }));
  EXPECT_EQ(stats().estimate.chunks_asked, 0U);
  EXPECT_EQ(stats().decisions.back(), 2U) << "99, and the older engine's";
}

TEST_F(ControlTest, HitsAreValuedByKnownPrefillSpeed) {
  protocol::SessionRegion& region = client_->region();
  write_event(region, EventKind::kRequest, 0, 0, 512, 256, 1000);
  write_event(region, EventKind::kPrefill, 0, 0, 100, 1'000'000);
  write_event(region, EventKind::kRequest, 0, 0, 512, 100, 1000);
  ASSERT_TRUE(wait([&] { return !stats().models.empty() && stats().models[0].tokens_hit == 356; }));
  EXPECT_EQ(stats().models[0].prefill_saved_ns, 3'560'000U);
}

TEST_F(ControlTest, TouchesReachTheEvictionPolicy) {
  const std::uint64_t slots = (1U << 20) / 12288;
  for (std::uint64_t n = 1; n <= slots; ++n) put(n);
  ASSERT_TRUE(wait([&] { return has(slots); }));
  const auto oldest = client_->index().find({{1, 1}, handle_, 0, 0});
  write_event(client_->region(), EventKind::kTouch, oldest->slot, oldest->generation, 0);
  write_event(client_->region(), EventKind::kPrefill, 0, 0, 1, 1);
  ASSERT_TRUE(
      wait([&] { return !stats().models.empty() && stats().models[0].prefill_tokens == 1; }));
  put(slots + 1);
  ASSERT_TRUE(wait([&] { return has(slots + 1); }));
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2));
}

// covers F-110
TEST_F(ControlTest, HostileEventRingsCostOnlyCounters) {
  protocol::SessionRegion& region = client_->region();
  region.event_head = 1ULL << 63;
  EXPECT_TRUE(wait([&] { return stats().events_lost > 0; }));
  region.event_head = 3;
  put(1);
  EXPECT_TRUE(wait([&] { return has(1); }));
}

TEST_F(ControlTest, ModelNamesAreBounded) {
  for (std::uint32_t i = 0; i < 2 * stats::kMaxModels; ++i) {
    protocol::OpenNamespace open{};
    const std::string text = "b: " + std::to_string(i);
    open.id = protocol::namespace_id(text);
    open.group_count = open.shard_count = 1;
    open.text_bytes = static_cast<std::uint32_t>(text.size());
    open.model = protocol::make_short_text("model-" + std::to_string(i));
    Client one(config_.socket);
    one.attach();
    protocol::Encoder encoder(MessageType::kOpenNamespace, 0);
    encoder.append(open).append(protocol::GroupLayout{4096, 1, 0}).append_text(text);
    ASSERT_TRUE(one.send(encoder).ok());
    ASSERT_TRUE(one.receive().ok());
    write_event(one.region(), EventKind::kRequest, 0, 0, 1);
  }
  ASSERT_TRUE(wait([&] { return stats().sessions_ended == 2 * stats::kMaxModels; }));
  const stats::Stats now = stats();
  EXPECT_LE(now.models.size(), stats::kMaxModels);
  EXPECT_EQ(now.models.back().model, "other");
  EXPECT_GT(now.models.back().requests, stats::kMaxModels - 2);
}

TEST(Control, CommandsToAStoppedLoopHaveADeadline) {
  char name[] = "/dev/shm/larder-test-XXXXXX";
  config::Config config;
  config.memory.directory = ::mkdtemp(name);
  config.memory.size_bytes = 1 << 20;
  config.socket = config.memory.directory + "/test.sock";
  const base::ManualClock clock;
  {
    Result<std::unique_ptr<Sidecar>> sidecar = Sidecar::start(config, clock);
    ASSERT_TRUE(sidecar.ok());
    EXPECT_EQ((*sidecar)->clear(50).status().code(), Code::kDeadlineExceeded);
  }
  std::filesystem::remove_all(config.memory.directory);
}

}  // namespace
}  // namespace larder::loop::testing_support
