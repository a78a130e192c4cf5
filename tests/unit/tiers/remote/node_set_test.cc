// The servers of a backend: the servers that count, their bound, and the end of a server.
#include "sidecar/tiers/remote/topology/node_set.h"

#include <gtest/gtest.h>

#include "tests/unit/tiers/remote/fake_server.h"

namespace larder::remote::testing_support {
namespace {

class NodeSetTest : public testing::Test {
 protected:
  NodeSetTest() { EXPECT_TRUE(poller_.open().ok()); }
  bool until(const std::function<bool()>& happens) {
    for (const std::uint64_t end = clock_.now_ns() + 30'000'000'000;
         clock_.now_ns() < end && !happens();) {
      nodes_.flush();
      poller_.wait(1'000'000);
      nodes_.turn();
    }
    return happens();
  }
  remote::Node& add_server() { return nodes_.add(Kind::kStandalone, {{}, 0, server_.socket()}); }

  base::MonotonicClock clock_;
  FakeServer server_;
  RemoteOptions options_;
  Poller poller_;
  int ready_ = 0;
  NodeSet nodes_{options_,
                 clock_,
                 poller_,
                 {[this] { ++ready_; }, [] {}, [](remote::Node&, Lane, const Reply&, bool) {}}};
};

TEST_F(NodeSetTest, NodeIsFoundByAddressAndRole) {
  const Endpoint here{"127.0.0.1", 1}, there{"127.0.0.1", 2};
  remote::Node* const node = nodes_.at(here);
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(nodes_.at(here), node);
  EXPECT_NE(nodes_.at(there), node);
  remote::Node* const replica = nodes_.at(here, Kind::kReplica);
  EXPECT_NE(replica, node);
  EXPECT_TRUE(replica->replica);
  EXPECT_EQ(nodes_.at(here, Kind::kReplica), replica);
  EXPECT_EQ(nodes_.size(), 3U);
}

TEST_F(NodeSetTest, NodesAreBounded) {
  for (std::size_t i = 0; i < NodeSet::kMost; ++i)
    ASSERT_NE(nodes_.at({"127.0.0.1", static_cast<std::uint16_t>(i + 1)}), nullptr);
  EXPECT_EQ(nodes_.at({"127.0.0.1", 60'000}), nullptr);
  EXPECT_NE(nodes_.at({"127.0.0.1", 1}), nullptr) << "a known node";
  EXPECT_EQ(nodes_.size(), NodeSet::kMost);
}

TEST_F(NodeSetTest, InAClusterOnlyNodesWithSlotsCount) {
  remote::Node& node = add_server();
  EXPECT_FALSE(nodes_.ready());
  node.denied = true;
  ASSERT_TRUE(until([&] { return nodes_.ready(); }));
  EXPECT_GT(ready_, 0);
  EXPECT_FALSE(node.denied) << "a finished handshake ends the refusal";
  options_.mode = Mode::kCluster;
  EXPECT_FALSE(nodes_.counts(node) || nodes_.ready());
  node.serves = true;
  EXPECT_TRUE(nodes_.counts(node) && nodes_.ready());
}

TEST_F(NodeSetTest, RemovedNodeFailsItsCommandsAndKeepsItsByteCount) {
  remote::Node& node = add_server();
  ASSERT_TRUE(until([&] { return node.links->ready(); }));
  server_.mute = true;
  Status answer;
  Request request;
  request.around.before = format_command(std::vector<std::string_view>{"GET", "key"});
  request.expect.types = "$";
  request.then = [&](const Status& lost, const Reply&) { answer = lost; };
  ASSERT_TRUE(node.links->ask(Lane::kReads, std::move(request)).ok());
  nodes_.flush();
  const std::uint64_t sent = nodes_.sent_bytes(), received = nodes_.received_bytes();
  EXPECT_GT(sent, 0U);
  nodes_.remove(0, {Code::kUnavailable, "removed"});
  EXPECT_EQ(answer.text(), "removed");
  EXPECT_TRUE(nodes_.empty());
  EXPECT_EQ(nodes_.sent_bytes(), sent);
  EXPECT_EQ(nodes_.received_bytes(), received);
}

}  // namespace
}  // namespace larder::remote::testing_support
