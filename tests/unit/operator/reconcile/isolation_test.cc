#include "operator/reconcile/isolation.h"

#include <gtest/gtest.h>

#include "tests/unit/operator/api/yaml_object.h"

namespace larder::reconcile {
namespace {

using api::Object;
using desired::Isolation;

api::CachePool pool() {
  return *api::parse_pool(
      test::from_yaml("{metadata: {name: chat, namespace: ml}, spec: {memory: {size: 1Gi}, peers: "
                      "{}}}")
          .at(0));
}

k8s::ObjectPtr policy(const std::string& spec, const std::string& name = "theirs") {
  Object object = test::from_yaml("{kind: NetworkPolicy, metadata: {name: " + name +
                                  ", namespace: ml}, spec: " + spec + "}")
                      .at(0);
  object["spec"]["ingress"] = Object::array({Object{{"from", "anything"}}});
  trim_policy(object);
  EXPECT_FALSE(object["spec"].contains("ingress"));
  return std::make_shared<const Object>(std::move(object));
}

PodView labelled_pod(const std::string& labels) {
  PodView view;
  view.labels = test::from_yaml(labels).at(0);
  return view;
}

Isolation of(const std::vector<std::string>& policies) {
  std::vector<k8s::ObjectPtr> all;
  for (const std::string& spec : policies) all.push_back(policy(spec));
  PodView asks_only;  // with hostNetwork: has no label, and no policy applies
  return isolation_of(
      pool(), all,
      {labelled_pod("{app: a, tier: gpu}"), labelled_pod("{app: b, tier: gpu}"), asks_only});
}

// covers F-320
TEST(IsolationTest, FollowsTheSelectorsOfOtherPolicies) {
  EXPECT_EQ(of({}), Isolation::kNone);
  EXPECT_EQ(of({"{podSelector: {}}"}), Isolation::kAll);
  EXPECT_EQ(of({"{podSelector: {matchLabels: {app: db}}}"}), Isolation::kNone);
  EXPECT_EQ(of({"{podSelector: {matchLabels: {tier: gpu}}}"}), Isolation::kAll);
  EXPECT_EQ(of({"{podSelector: {matchLabels: {tier: gpu, app: a}}}"}), Isolation::kMixed);
  EXPECT_EQ(
      of({"{podSelector: {matchLabels: {app: a}}}", "{podSelector: {matchLabels: {app: b}}}"}),
      Isolation::kAll);
}

TEST(IsolationTest, ReadsExpressions) {
  const auto by = [](const std::string& expression) {
    return of({"{podSelector: {matchExpressions: [" + expression + "]}}"});
  };
  EXPECT_EQ(by("{key: app, operator: In, values: [a, x]}"), Isolation::kMixed);
  EXPECT_EQ(by("{key: app, operator: In, values: [a, b]}"), Isolation::kAll);
  EXPECT_EQ(by("{key: none, operator: In, values: [a]}"), Isolation::kNone);
  EXPECT_EQ(by("{key: app, operator: NotIn, values: [a]}"), Isolation::kMixed);
  EXPECT_EQ(by("{key: none, operator: NotIn, values: [a]}"), Isolation::kAll);
  EXPECT_EQ(by("{key: tier, operator: Exists}"), Isolation::kAll);
  EXPECT_EQ(by("{key: tier, operator: DoesNotExist}"), Isolation::kNone);
  EXPECT_EQ(by("{key: tier, operator: Exists}, {key: app, operator: In, values: [b]}"),
            Isolation::kMixed);
}

TEST(IsolationTest, EgressPoliciesAndTheOwnPolicyAreIgnored) {
  EXPECT_EQ(of({"{podSelector: {}, policyTypes: [Egress]}"}), Isolation::kNone);
  EXPECT_EQ(of({"{podSelector: {}, policyTypes: [Egress, Ingress]}"}), Isolation::kAll);
  for (const char* own : {"larder-chat-peers", "larder-chat-mooncake"})
    EXPECT_EQ(isolation_of(pool(), {policy("{podSelector: {}}", own)}, {labelled_pod("{app: a}")}),
              Isolation::kNone);
}

TEST(IsolationTest, BeforeTheFirstPodAPolicyForAllPodsCounts) {
  EXPECT_EQ(isolation_of(pool(), {policy("{podSelector: {}}")}, {}), Isolation::kAll);
  EXPECT_EQ(isolation_of(pool(), {policy("{podSelector: {matchLabels: {a: b}}}")}, {}),
            Isolation::kNone);
}

TEST(IsolationTest, OwnPoliciesKeepTheirRules) {
  Object ours = test::from_yaml(
                    "{metadata: {name: x, labels: {app.kubernetes.io/managed-by: "
                    "larder-operator}}, spec: {ingress: []}}")
                    .at(0);
  trim_policy(ours);
  EXPECT_TRUE(ours["spec"].contains("ingress"));
}

}  // namespace
}  // namespace larder::reconcile
