#include "operator/reconcile/node_pages.h"

#include <gtest/gtest.h>

#include "tests/unit/operator/fake_api.h"

namespace larder::reconcile {
namespace {

using api::Object;

const k8s::Resource kNodes{"", "v1", "nodes", "Node", false};
constexpr const char* kPage = "hugepages-2Mi";

Object container(const char* bytes, bool sidecar = false) {
  Object one{{"name", "c"},
             {"resources", {{"requests", {{kPage, bytes}}}, {"limits", {{kPage, bytes}}}}}};
  if (sidecar) one["restartPolicy"] = "Always";
  return one;
}

TEST(NodePagesTest, PodRequestMatchesTheScheduler) {
  Object pod{{"spec", {{"containers", Object::array({container("4Mi"), container("2Mi")})}}}};
  EXPECT_EQ(asked_by(pod, kPage), 6ULL << 20);
  pod["spec"]["initContainers"] = Object::array({container("8Mi", true), container("2Mi")});
  EXPECT_EQ(asked_by(pod, kPage), 14ULL << 20);
  pod["spec"]["initContainers"].push_back(container("100Mi"));
  EXPECT_EQ(asked_by(pod, kPage), 108ULL << 20);  // beside the sidecar, which runs already
  EXPECT_EQ(asked_by(pod, "hugepages-1Gi"), 0U);
  pod["status"]["phase"] = "Succeeded";
  EXPECT_EQ(asked_by(pod, kPage), 0U);
}

TEST(NodePagesTest, FreePagesExcludePodRequests) {
  operator_test::FakeApi api;
  const auto said = [&](const char* page) { return text_of(pages_of_nodes(api, page)); };
  EXPECT_EQ(said("2Mi"), "none of 0 has any");
  const auto node = [&](const char* name, const char* bytes) {
    api.as_user(kNodes,
                {{"metadata", {{"name", name}}}, {"status", {{"allocatable", {{kPage, bytes}}}}}});
  };
  node("a", "100Mi");
  node("b", "200Mi");
  node("c", "0");
  const auto pod = [&](const char* name, const char* on, const char* bytes) {
    api.as_user(k8s::resources::kPods,
                {{"metadata", {{"name", name}, {"namespace", "theirs"}}},
                 {"spec", {{"nodeName", on}, {"containers", Object::array({container(bytes)})}}}});
  };
  pod("one", "b", "20Mi");
  pod("two", "b", "100Mi");
  pod("three", "a", "200Mi");  // more than there is: a node that lost pages
  EXPECT_EQ(said("2Mi"), "b 40 free of 100, a 0 free of 50; 1 without any");
  EXPECT_EQ(totals_for(pages_of_nodes(api, "2Mi"), 60), "120 on b, 110 on a");
  EXPECT_FALSE(have_enough(pages_of_nodes(api, "2Mi"), 41));
  EXPECT_TRUE(have_enough(pages_of_nodes(api, "2Mi"), 40));
  EXPECT_EQ(said("1Gi"), "none of 3 has any");
  api.set_failures([](const operator_test::FakeApi::Call& call) {
    return call.plural == "pods"
               ? std::optional(operator_test::FakeApi::Failure{{Code::kPermissionDenied, "no"}})
               : std::nullopt;
  });
  EXPECT_EQ(said("2Mi"), "b 100, a 50; 1 without any");
  EXPECT_EQ(totals_for(pages_of_nodes(api, "2Mi"), 60), "");
}

}  // namespace
}  // namespace larder::reconcile
