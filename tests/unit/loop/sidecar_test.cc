// The sidecar for an engine: attach, store, look up.
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop::testing_support {
namespace {

const std::string kFingerprint = "engine: vllm\ndtype: bfloat16\n";

TEST_F(SidecarTest, AnEngineAttachesStoresAndFinds) {
  start();
  Client client(config_.socket);
  client.attach();
  const std::uint32_t handle = client.open_namespace(kFingerprint);
  const auto grants = client.reserve(handle, {{1, 1}, {2, 2}});
  ASSERT_EQ(grants.size(), 2U);
  EXPECT_EQ(grants[0].status, 0U);
  const protocol::Key key{{1, 1}, handle, 0, 0};
  EXPECT_FALSE(client.index().find(key));
  client.commit(grants[0], 77);
  ASSERT_TRUE(wait([&] { return client.index().find(key).has_value(); }));
  const auto view = client.index().find(key);
  EXPECT_EQ(view->root, 77U);
  EXPECT_EQ(view->generation, grants[0].generation);
}

// So many sessions with as many namespaces as one may have fill the table.
class FullTable : public SidecarTest {
 protected:
  static constexpr std::uint32_t kEach = protocol::kMaxClientNamespaces,
                                 kEngines = protocol::kMaxNamespaces / kEach;

  void fill() {
    start();
    for (std::uint32_t engine = 0; engine < kEngines; ++engine) {
      engines_.push_back(attached());
      for (std::uint32_t i = 0; i < kEach; ++i)
        ASSERT_NE(engines_.back()->open_namespace(text(engine, i), 4096, nullptr, 100 + i),
                  protocol::kNoNamespace);
    }
  }
  static std::string text(std::uint32_t engine, std::uint32_t i) {
    return "engine: " + std::to_string(engine) + "\nadapter: " + std::to_string(i) + "\n";
  }
  std::unique_ptr<Client> attached() const {
    auto client = std::make_unique<Client>(config_.socket);
    client->attach();
    return client;
  }
  // An engine that attaches and asks for its first namespace. Empty: the engine may stay.
  std::string refusal() const {
    Client client(config_.socket);
    client.attach();
    const std::string fingerprint = "one more";
    protocol::OpenNamespace open{};
    open.id = protocol::namespace_id(fingerprint);
    open.group_count = open.shard_count = 1;
    open.text_bytes = static_cast<std::uint32_t>(fingerprint.size());
    protocol::Encoder encoder(MessageType::kOpenNamespace, 2);
    encoder.append(open).append(protocol::GroupLayout{4096, 2, 0}).append_text(fingerprint);
    EXPECT_TRUE(client.send(encoder).ok());
    const Result<protocol::Packet> packet = client.receive();
    if (!packet.ok()) return packet.status().to_string();
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    if (decoder->type() == MessageType::kNamespace) return "";
    protocol::Error error{};
    std::string text;
    EXPECT_TRUE(decoder->read(error) && decoder->read_text(error.text_bytes, 8192, text));
    return text;
  }

  std::vector<std::unique_ptr<Client>> engines_;
};

// covers F-099
TEST_F(FullTable, OneSessionCannotOpenEveryNamespace) {
  start();
  const auto client = attached();
  const std::uint32_t handle = client->open_namespace(text(0, 0));
  for (std::uint32_t i = 1; i < kEach; ++i)
    client->open_namespace(text(0, i), 4096, nullptr, 100 + i);
  std::string why;
  EXPECT_EQ(client->open_namespace("one more", 4096, &why), protocol::kNoNamespace);
  EXPECT_NE(why.find("close one"), std::string::npos) << why;
  EXPECT_EQ(client->reserve(handle, {{1, 1}}).at(0).status, 0U) << "an adapter costs no session";
  client->close_namespace(101);
  EXPECT_NE(client->open_namespace("one more", 4096, &why), protocol::kNoNamespace)
      << "the remedy of the message helps";
  EXPECT_TRUE(wait([&] { return stats().namespaces_refused == 1; }));
}

// covers F-099
TEST_F(FullTable, TableFullOfOpenNamespacesRefusesWithRemedy) {
  fill();
  std::string why = refusal();
  EXPECT_NE(why.find("in use by sessions"), std::string::npos) << why;
  ASSERT_NE(why.find("unload adapters of one"), std::string::npos) << why;
  engines_[3]->close_namespace(107);
  EXPECT_TRUE(wait([&] { return refusal().empty(); }));
  engines_[3]->open_namespace(text(3, 7), 4096, nullptr, 107);
  ASSERT_FALSE(refusal().empty());
  ASSERT_NE(why.find("end an engine"), std::string::npos) << why;
  engines_.pop_back();
  EXPECT_TRUE(wait([&] { return refusal().empty(); }));
}

// covers F-098
TEST_F(FullTable, LeastUsedUnopenedNamespaceIsReplacedFirst) {
  fill();
  const auto store = [&](std::uint32_t engine, std::uint32_t i, std::uint64_t n) {
    const std::uint32_t handle =
        engines_[engine]->open_namespace(text(engine, i), 4096, nullptr, 100 + i);
    engines_[engine]->commit(engines_[engine]->reserve(handle, {{n, n}}).at(0), n);
    return handle;
  };
  for (const std::uint32_t i : {1U, 2U}) engines_[0]->close_namespace(100 + i);
  const std::uint32_t first = store(0, 1, 1), second = store(0, 2, 2);
  ASSERT_TRUE(wait([&] { return stats().slots_committed == 2; }));
  // that of `second` is the least used
  for (const std::uint32_t i : {2U, 1U}) engines_[0]->close_namespace(100 + i);
  ASSERT_TRUE(wait([&] { return refusal().empty(); }));
  const protocol::IndexReader index = engines_[0]->index();
  EXPECT_TRUE(index.find({{1, 1}, first, 0, 0}));
  EXPECT_FALSE(index.find({{2, 2}, second, 0, 0}));
  EXPECT_TRUE(wait([&] { return stats().namespaces_evicted == 1; }));
  EXPECT_EQ(stats().namespaces_refused, 0U);
}

// An engine's threads need not wait for each other: one closes a namespace, another sends a request
// for the namespace.
// covers F-101
TEST_F(SidecarTest, MessageForClosedNamespaceIsAMissAndKeepsTheSession) {
  start();
  Client client(config_.socket);
  client.attach();
  client.open_namespace("a: 1");
  const std::uint32_t handle = client.open_namespace("a: 2", 4096, nullptr, 7);
  const auto late = client.reserve(handle, {{1, 1}});
  client.close_namespace(7);
  EXPECT_EQ(client.reserve(handle, {{1, 1}, {2, 2}}).at(1).status,
            static_cast<std::uint32_t>(protocol::GrantStatus::kRefused));
  EXPECT_EQ(client.act(handle, protocol::Verb::kPrefetch, {{1, 1}}).absent, 1U);
  client.commit(late.at(0), 7);  // a store that was begun is committed
  ASSERT_TRUE(wait([&] { return client.index().find({{1, 1}, handle, 0, 0}).has_value(); }));
  EXPECT_EQ(client.open_namespace("a: 2", 4096, nullptr, 8), handle) << "it has a chunk";
  client.open_namespace("a: 2", 4096, nullptr, 9);
  client.close_namespace(9, protocol::kCloseDrop);
  EXPECT_EQ(client.reserve(handle, {{3, 3}}).at(0).status, 0U)
      << "another request of this session has it open";
  EXPECT_TRUE(client.index().find({{1, 1}, handle, 0, 0}));
  client.close_namespace(8, protocol::kCloseDrop);
  ASSERT_TRUE(wait([&] { return !client.index().find({{1, 1}, handle, 0, 0}).has_value(); }));
  EXPECT_TRUE(wait([&] { return stats().namespaces.size() == 1; }));
  client.close_namespace(99);
  EXPECT_EQ(client.reserve(0, {{4, 4}}).at(0).status, 0U)
      << "a request without a namespace is ignored";
}

// The last of two sessions that closes the namespace.
TEST_F(SidecarTest, NamespaceClosedByOneSessionStaysOpenForOthers) {
  start();
  Client one(config_.socket), other(config_.socket);
  one.attach();
  other.attach();
  const std::uint32_t handle = one.open_namespace("a: 1", 4096, nullptr, 7);
  ASSERT_EQ(other.open_namespace("a: 1", 4096, nullptr, 7), handle);
  one.commit(one.reserve(handle, {{1, 1}}).at(0), 7);
  one.close_namespace(7, protocol::kCloseDrop);
  EXPECT_EQ(one.reserve(handle, {{2, 2}}).at(0).status,
            static_cast<std::uint32_t>(protocol::GrantStatus::kRefused));
  EXPECT_TRUE(other.index().find({{1, 1}, handle, 0, 0}));
  other.close_namespace(7, protocol::kCloseDrop);
  EXPECT_TRUE(wait([&] { return stats().namespaces.empty() && stats().slots_committed == 0; }));
}

// A member that opens a text first with another chunk layout, stores there and stays.
// covers F-102
TEST_F(SidecarTest, OtherLayoutCostsItsOpenerOnly) {
  start();
  Client hostile(config_.socket), honest(config_.socket);
  hostile.attach();
  honest.attach();
  const std::uint32_t wrong = hostile.open_namespace(kFingerprint, 512);
  hostile.commit(hostile.reserve(wrong, {{1, 1}}).at(0), 7);
  ASSERT_TRUE(wait([&] { return stats().slots_committed == 1; }));
  std::string difference;
  const std::uint32_t right = honest.open_namespace(kFingerprint, 4096, &difference);
  EXPECT_NE(right, wrong);
  EXPECT_NE(difference.find("the chunk layout alone"), std::string::npos) << difference;
  const auto grants = honest.reserve(right, {{1, 1}});
  ASSERT_EQ(grants.at(0).status, 0U) << "the other one's chunk is in nobody's way";
  honest.commit(grants[0], 8);
  ASSERT_TRUE(wait([&] { return honest.index().find({{1, 1}, right, 0, 0}).has_value(); }));
  Client late(config_.socket);
  late.attach();
  EXPECT_EQ(late.open_namespace(kFingerprint), right);
  EXPECT_EQ(*sidecar_->drop_namespace(protocol::namespace_id(kFingerprint).to_hex(), 5000), 2U)
      << "people name the text";
}

}  // namespace
}  // namespace larder::loop::testing_support
