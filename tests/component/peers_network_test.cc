// Three larderd of a pool in three network namespaces, joined by a bridge, as on three nodes. A
// partition loses packets, and refuses nothing. Needs root.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/component/network_place.h"
#include "tests/component/peer_node.h"

namespace larder::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kNodes = 3;

std::string address_of(int node) {
  return "10.78.0." + std::to_string(node + 1);
}

// A bridge in a namespace of its own, with a wire to each node's namespace.
class Bridge {
 public:
  Bridge() {
    must(switch_, "ip link add bridge type bridge && ip link set bridge up");
    for (int i = 0; i < kNodes; ++i) {
      must(switch_, "ip link add " + port(i) + " type veth peer name wire netns " +
                        nodes_[i].path() + " && ip link set " + port(i) + " master bridge up");
      must(nodes_[i], "ip addr add " + address_of(i) + "/24 dev wire && ip link set wire up");
    }
  }
  const NetworkPlace& node(int i) const { return nodes_[i]; }
  // Cut off, the packets from and to the node are lost. Both sides keep their link.
  void cut(int i, bool off) const {
    must(switch_, "ip link set " + port(i) + (off ? " nomaster" : " master bridge"));
  }

 private:
  static std::string port(int i) { return "port" + std::to_string(i); }
  static void must(const NetworkPlace& place, const std::string& command) {
    place.within([&] {
      if (!run_quietly(command)) throw std::runtime_error(command);
    });
  }
  const NetworkPlace switch_;
  const std::array<NetworkPlace, kNodes> nodes_;
};

// Each node has stored chunks: node i from 100 * i on.
class PeersNetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      bridge_.emplace();
    } catch (const std::runtime_error& why) {
      GTEST_SKIP() << "no bridge between namespaces here: " << why.what();
    }
    PeerSettings settings;
    settings.port = 9465;
    for (int i = 0; i < kNodes; ++i)
      settings.members += (i == 0 ? "" : ",") + address_of(i) + ":9465";
    for (int i = 0; i < kNodes; ++i) {
      settings.host = address_of(i);
      bridge_->node(i).within([&] { nodes_[i] = std::make_unique<Node>(settings); });
    }
    for (int i = 0; i < kNodes; ++i) {
      nodes_[i]->store(first(i));
      ASSERT_TRUE(nodes_[i]->reaches(kNodes - 1)) << i;
    }
  }
  static std::uint64_t first(int node) { return 100 * static_cast<std::uint64_t>(node); }
  Node& node(int i) const { return *nodes_[i]; }
  bool shares_again(int asker, int holder) const {
    return eventually([&] { return node(asker).shares(first(holder)); }, 30'000, 50);
  }

  std::optional<Bridge> bridge_;
  std::array<std::unique_ptr<Node>, kNodes> nodes_;
};

TEST_F(PeersNetworkTest, EachNodeLoadsWhatTheOthersStored) {
  for (int asker = 0; asker < kNodes; ++asker)
    for (int holder = 0; holder < kNodes; ++holder)
      if (asker != holder) {
        EXPECT_TRUE(shares_again(asker, holder)) << asker << " from " << holder;
      }
}

// covers F-266, F-275
TEST_F(PeersNetworkTest, PartitionCostsTheChunksBehindItOnly) {
  ASSERT_TRUE(shares_again(0, 1));
  ASSERT_TRUE(eventually([&] { return node(0).probe(first(2)) == kChunks; }, 30'000, 50));
  bridge_->cut(2, true);
  const auto begun = steady_clock::now();
  EXPECT_EQ(node(0).fetch(first(2), kChunks, 20'000), 0U) << "found a moment ago";
  EXPECT_LT(since(begun), milliseconds(10'000)) << "it ends long before its deadline";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(shares_again(0, 1)) << i;
  EXPECT_TRUE(node(0).reaches(1));
  EXPECT_NE(node(0).larderd.status_text({"peers", "reason"}).find(address_of(2)),
            std::string::npos);
  EXPECT_EQ(node(0).probe(first(2)), 0U);
  EXPECT_TRUE(node(2).loads(first(2))) << "its own engine is served";
  EXPECT_EQ(node(2).probe(first(0)), 0U);
  bridge_->cut(2, false);
  EXPECT_TRUE(shares_again(0, 2) && shares_again(2, 0));
}

// covers F-266
TEST_F(PeersNetworkTest, PartitionDuringTransfersYieldsNoWrongByte) {
  std::uint32_t whole = 0, cut = 0;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(eventually([&] { return node(0).probe(first(2)) == kChunks; }, 30'000, 50)) << i;
    const Result<std::uint64_t> ticket = node(0).begin_fetch(first(2));
    ASSERT_TRUE(ticket.ok());
    std::this_thread::sleep_for(milliseconds(i));
    bridge_->cut(2, true);
    const std::uint32_t chunks = node(0).end_of_fetch(*ticket);
    node(0).engine.client->lower_tiers().fetches().end(*ticket);
    ++(chunks == kChunks ? whole : cut);
    if (chunks != 0) {
      EXPECT_TRUE(node(0).loads(first(2), chunks));
    }
    node(0).evict(first(2));
    bridge_->cut(2, false);
  }
  RecordProperty("whole", static_cast<int>(whole));
  RecordProperty("cut", static_cast<int>(cut));
  EXPECT_TRUE(shares_again(0, 2));
}

}  // namespace
}  // namespace larder::test
