// The golden files have the whole objects; here are the rules behind them.
#include "operator/desired/peer_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/desired/pool_objects.h"
#include "tests/unit/operator/desired/pool_case.h"

namespace larder::desired {
namespace {

using api::Object;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> kinds(const std::string& spec, Isolation isolation = Isolation::kNone) {
  const test::PoolCase one = test::pool_case_of(spec);
  std::vector<std::string> all;
  for (const Object& object : pool_objects(*one.pool, one.backend, one.defaults, isolation))
    all.push_back(object["kind"]);
  return all;
}

bool covers(const Object& rule, int port, const std::string& protocol) {
  for (const Object& range : rule["ports"]) {
    const int first = range["port"], last = range.value("endPort", first);
    if (range["protocol"] == protocol && first <= port && port <= last) return true;
  }
  return false;
}

// Whether the policy lets a pod with the label `of_pool` (empty: any client) reach a port.
bool lets(const Object& policy, const std::string& of_pool, int port,
          const std::string& protocol = "TCP") {
  for (const Object& rule : policy["spec"]["ingress"]) {
    bool from = !rule.contains("from");
    for (const Object& client : api::child(rule, "from"))
      from |= client["podSelector"]["matchLabels"]["larder.dev/peers"] == of_pool;
    if (from && covers(rule, port, protocol)) return true;
  }
  return false;
}

TEST(PeerObjects, ExistOnlyForPoolsWithPeers) {
  EXPECT_THAT(kinds("{memory: {size: 1Gi}}"), IsEmpty());
  EXPECT_THAT(kinds("{memory: {size: 1Gi}, peers: {enabled: false}}"), IsEmpty());
  EXPECT_THAT(kinds("{memory: {size: 1Gi}, peers: {}}"), ElementsAre("Service", "NetworkPolicy"));
  EXPECT_THAT(kinds("{placement: Node, memory: {size: 1Gi}, peers: {}}"),
              ElementsAre("ConfigMap", "DaemonSet", "Service", "NetworkPolicy"));
  EXPECT_THAT(kinds("{memory: {size: 1Gi}, peers: {}}", Isolation::kMixed), ElementsAre("Service"));
}

// covers F-320
TEST(PeerObjects, PolicyClosesOnlyThePeerPort) {
  const test::PoolCase one = test::pool_case_of("{memory: {size: 1Gi}, peers: {}}");
  const Object policy = peers_policy(*one.pool, Isolation::kNone);
  EXPECT_EQ(policy["spec"]["policyTypes"], Object::array({"Ingress"}));
  EXPECT_TRUE(lets(policy, "main", 9466));
  EXPECT_FALSE(lets(policy, "", 9466));
  EXPECT_FALSE(lets(policy, "other", 9466));
  for (const int port : {1, 80, 8000, 9464, 9465, 9467, 65535}) {
    EXPECT_TRUE(lets(policy, "", port)) << port;
    EXPECT_TRUE(lets(policy, "", port, "UDP")) << port;
  }
}

// A namespace that denies by default stays closed.
// covers F-320
TEST(PeerObjects, PolicyBesideOthersOpensOnlyThePeerPort) {
  const test::PoolCase one = test::pool_case_of("{memory: {size: 1Gi}, peers: {}}");
  const Object policy = peers_policy(*one.pool, Isolation::kAll);
  EXPECT_TRUE(lets(policy, "main", 9466));
  for (const int port : {1, 8000, 9465, 9466, 9467}) EXPECT_FALSE(lets(policy, "", port)) << port;
  EXPECT_FALSE(lets(policy, "main", 8000));
}

// The Service and the policies select by the label, which every serving pod has, and no other pod.
TEST(PeerObjects, DaemonSetPodsHaveTheLabel) {
  const test::PoolCase one =
      test::pool_case_of("{placement: Node, memory: {size: 1Gi}, peers: {}}");
  const Object set = daemon_set(*one.pool, one.backend, one.defaults);
  const Object selector = peers_service(*one.pool)["spec"]["selector"];
  for (const auto& [key, value] : selector.items())
    EXPECT_EQ(set["spec"]["template"]["metadata"]["labels"][key], value);
  EXPECT_EQ(set["spec"]["selector"]["matchLabels"].count("larder.dev/peers"), 0U)
      << "a selector cannot change";
}

}  // namespace
}  // namespace larder::desired
