#include "operator/kubectl/plugin_commands.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sidecar/pages/status_json.h"
#include "tests/unit/ctl/sample_stats.h"
#include "tests/unit/operator/kubectl/fake_kubectl.h"

namespace larder::kubectl {
namespace {

using nlohmann::json;

constexpr const char* kPools = "get cachepools.larder.dev --output json --namespace models";

constexpr const char* kFellows =
    "get --raw /api/v1/namespaces/models/pods?limit=250&labelSelector=larder%2Edev%2Fpool%3Dchat";

json pod(const std::string& name, const json& annotations, bool injected) {
  json one = {{"metadata",
               {{"name", name},
                {"namespace", "models"},
                {"uid", "uid-" + name},
                {"annotations", annotations}}},
              {"spec", {{"containers", json::parse(R"([{"name": "vllm"}])")}, {"nodeName", "a"}}},
              {"status", {{"phase", "Running"}, {"podIP", "10.0.0.1"}}}};
  if (!injected) return one;
  one["metadata"]["labels"] = {{"larder.dev/pool", "chat"}};
  one["metadata"]["annotations"]["larder.dev/injected"] = "0.1.0/chat";
  one["spec"]["initContainers"] =
      json::parse(R"([{"name": "larder-payload"}, {"name": "larder"}])");
  one["status"]["initContainerStatuses"] = json::parse(R"([{"name": "larder", "ready": true}])");
  return one;
}

json list(const json& items, const std::string& next = "") {
  return {{"metadata", {{"continue", next}}}, {"items", items}};
}

class PluginCommandsTest : public testing::Test {
 protected:
  PluginCommandsTest() : kubectl_({}, fake_.program()), cluster_(kubectl_) {
    const json pool = {
        {"metadata", {{"name", "chat"}, {"namespace", "models"}}},
        {"spec", {{"memory", {{"size", "8Gi"}}}}},
        {"status",
         {{"observedGeneration", 1},
          {"pods", {{"total", 2}, {"attached", 1}}},
          {"engines", 2},
          {"memory", {{"text", "1Gi/16Gi"}}},
          {"hitRatio", "93%"},
          {"conditions",
           json::parse(R"([{"type": "Ready", "status": "True", "reason": "AllReady", )"
                       R"("message": "well"}])")}}}};
    fake_.serve(kPools, list(json::array({pool})).dump());
    fake_.serve("get cachepools.larder.dev chat --output json --namespace models", pool.dump());
  }

  // Two pages: the answer of a namespace with many pods.
  void serve_pods(const json& first, const json& second) {
    fake_.serve("get --raw /api/v1/namespaces/models/pods?limit=250", list(first, "MORE").dump());
    fake_.serve("get --raw /api/v1/namespaces/models/pods?limit=250&continue=MORE",
                list(second).dump());
  }
  void serve_larderd(const std::string& name) {
    fake_.serve("get --raw /api/v1/namespaces/models/pods/" + name + ":9464/proxy/v1/status",
                pages::status_json(ctl::busy_stats(), true, true));
  }
  Arguments words(std::vector<std::string> all, bool as_json = false) {
    Arguments arguments;
    arguments.ns = "models";
    arguments.json = as_json;
    arguments.words = std::move(all);
    return arguments;
  }

  FakeKubectl fake_;
  Kubectl kubectl_;
  Cluster cluster_;
};

const json kAsked = {{"larder.dev/pool", "chat"}};

TEST_F(PluginCommandsTest, EveryPageOfPodsIsRead) {
  serve_pods(json::array({pod("llm-1", kAsked, true), pod("web", json::object(), false)}),
             json::array({pod("llm-2", kAsked, false)}));
  serve_larderd("llm-1");
  const auto outcome = pods_of_pools(words({"pods"}), cluster_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().text();
  EXPECT_EQ(outcome->exit_status, 1);
  EXPECT_EQ(outcome->text,
            "POD     POOL   INJECTED   ATTACHED   HITS   MEMORY              REASON\n"
            "llm-1   chat   yes        yes        93%    768.0 MiB/5.0 GiB   \n"
            "llm-2   chat   no         no         -      -                   NotAsked\n"
            "\nkubectl larder why POD explains one pod.\n");
}

TEST_F(PluginCommandsTest, AtMostSixtyFourLarderdAreQueriedAndTheRestCounted) {
  json first = json::array(), second = json::array();
  for (int i = 0; i < 500; ++i) first.push_back(pod("a-" + std::to_string(i), kAsked, true));
  for (int i = 0; i < 500; ++i) second.push_back(pod("b-" + std::to_string(i), kAsked, true));
  serve_pods(first, second);
  const auto outcome = pods_of_pools(words({"pods"}), cluster_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().text();
  const std::string calls = fake_.calls();
  std::size_t asked = 0;
  for (std::size_t at = calls.find("/proxy/"); at != std::string::npos;
       at = calls.find("/proxy/", at + 1))
    ++asked;
  EXPECT_EQ(asked, 64U);
  EXPECT_NE(outcome->text.find("\nb-499   chat   yes        -          -      -        \n"),
            std::string::npos);
  EXPECT_NE(outcome->text.find("\n936 more larderd were not asked; --all asks each.\n"),
            std::string::npos);
}

TEST_F(PluginCommandsTest, JsonHasTheSameContent) {
  serve_pods(json::array({pod("llm-1", kAsked, true)}), json::array());
  serve_larderd("llm-1");
  const auto outcome = pods_of_pools(words({"pods", "chat"}, true), cluster_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().text();
  EXPECT_EQ(outcome->exit_status, 0);
  const json said = json::parse(outcome->text);
  EXPECT_EQ(said["pods"][0]["pod"], "llm-1");
  EXPECT_EQ(said["pods"][0]["attached"], true);
  EXPECT_EQ(said["pods"][0]["larderd"]["tokensHit"], 3'840'000);
}

TEST_F(PluginCommandsTest, StatusShowsBenefitAndPodsWithoutCache) {
  serve_pods(json::array({pod("llm-1", kAsked, true)}),
             json::array({pod("llm-2", kAsked, false),
                          pod("llm-3", {{"larder.dev/pool", "none"}}, false)}));
  const auto outcome = status_of_pools(words({"status"}), cluster_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().text();
  EXPECT_EQ(outcome->exit_status, 1);
  for (const char* part :
       {"chat   1/2    2         1Gi/16Gi   93%", "Is it helping?  yes: 93%",
        "1 annotated pods have no cache: llm-2", "kubectl larder why llm-2 -n models",
        "NoSuchPool: 1 pods name a CachePool that does not exist: models/llm-3"})
    EXPECT_NE(outcome->text.find(part), std::string::npos) << part << "\n" << outcome->text;
}

TEST_F(PluginCommandsTest, StatusOfHealthyPoolExitsWithZero) {
  serve_pods(json::array({pod("llm-1", kAsked, true)}), json::array());
  EXPECT_EQ(status_of_pools(words({"status", "chat"}), cluster_)->exit_status, 0);
}

TEST_F(PluginCommandsTest, MissingPoolIsReportedWithExistingPools) {
  const auto outcome = pods_of_pools(words({"pods", "chta"}), cluster_);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().text(),
            "there is no CachePool chta in namespace models; there are: chat");
}

TEST_F(PluginCommandsTest, MissingDefinitionsMeanNotInstalled) {
  fake_.refuse(kPools, "error: the server doesn't have a resource type \"cachepools\"");
  EXPECT_NE(
      status_of_pools(words({"status"}), cluster_).status().text().find("Larder is not installed"),
      std::string::npos);
}

TEST_F(PluginCommandsTest, WhyReadsTheLogOnlyWithoutAttachedEngine) {
  const json one = pod("llm-1", kAsked, true);
  fake_.serve("get pod llm-1 --output json --namespace models", one.dump());
  fake_.serve(kFellows, list(json::array({one})).dump());
  serve_larderd("llm-1");
  const auto well = why_pod(words({"why", "llm-1"}), cluster_);
  ASSERT_TRUE(well.ok()) << well.status().text();
  EXPECT_EQ(well->exit_status, 0);
  EXPECT_NE(well->text.find("Pod models/llm-1 has a cache.\n  Hits: the cache has hits: 93%"),
            std::string::npos)
      << well->text;
  EXPECT_EQ(fake_.calls().find("logs"), std::string::npos);

  fake_.serve("get --raw /api/v1/namespaces/models/pods/llm-1:9464/proxy/v1/status",
              pages::status_json(ctl::idle_stats(), true, true));
  fake_.serve("logs llm-1 --namespace models --container vllm --limit-bytes 4194304",
              "INFO start\nWARNING Larder is off for this engine: KV pages on cuda are not served "
              "yet, only on cpu\nINFO more\n");
  const auto off = why_pod(words({"why", "llm-1"}), cluster_);
  ASSERT_TRUE(off.ok());
  EXPECT_EQ(off->exit_status, 1);
  EXPECT_NE(
      off->text.find(
          "! EngineOff: the engine runs without the cache; the engine's reason: KV pages on cuda"),
      std::string::npos)
      << off->text;
}

TEST_F(PluginCommandsTest, TraceRunsLarderctlInThePod) {
  const json one = pod("llm-1", kAsked, true);
  fake_.serve("get pod llm-1 --output json --namespace models", one.dump());
  fake_.serve(kFellows, list(json::array({one})).dump());
  fake_.serve(
      "exec llm-1 -n models -c larder -- larderctl --socket /run/larder/chat.admin trace --seconds "
      "5",
      "{a request}\n");
  Arguments arguments = words({"trace", "llm-1"});
  arguments.seconds = 5;
  testing::internal::CaptureStdout();
  const auto outcome = trace_pod(arguments, cluster_);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "{a request}\n");
  ASSERT_TRUE(outcome.ok()) << outcome.status().text();
  EXPECT_EQ(outcome->text, "");
  EXPECT_EQ(outcome->exit_status, 0);

  arguments.seconds = 6;  // that call is refused
  EXPECT_EQ(trace_pod(arguments, cluster_).status().text(), "kubectl exec failed");
}

TEST_F(PluginCommandsTest, TraceOfPodWithoutLarderdNamesTheNextStep) {
  fake_.serve("get pod llm-1 --output json --namespace models", pod("llm-1", kAsked, false).dump());
  fake_.serve(kFellows, list(json::array()).dump());
  EXPECT_EQ(trace_pod(words({"trace", "llm-1"}), cluster_).status().text(),
            "no larderd serves pod llm-1: kubectl larder why llm-1");
}

TEST_F(PluginCommandsTest, WhyReadsTheWorkloadAboveTheReplicaSet) {
  json one = pod("llm-1", json::object(), false);
  one["metadata"]["ownerReferences"] =
      json::parse(R"([{"kind": "ReplicaSet", "name": "llm-5", "controller": true}])");
  fake_.serve("get pod llm-1 --output json --namespace models", one.dump());
  fake_.serve("get ReplicaSet llm-5 --output json --namespace models",
              R"({"metadata": {"ownerReferences": [{"kind": "Deployment", "name": "llm", )"
              R"("controller": true}]}})");
  fake_.serve("get Deployment llm --output json --namespace models",
              R"({"metadata": {"annotations": {"larder.dev/pool": "chat"}}})");
  const auto outcome = why_pod(words({"why", "llm-1"}), cluster_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().text();
  EXPECT_NE(outcome->text.find("AnnotationNotOnTemplate"), std::string::npos) << outcome->text;
}

TEST_F(PluginCommandsTest, BackendStateCombinesOperatorAndPods) {
  const json backend = {
      {"metadata", {{"name", "shared"}, {"namespace", "models"}}},
      {"status",
       {{"server", "Valkey"},
        {"version", "8.0.1"},
        {"conditions", json::parse(R"([{"type": "Ready", "status": "True"}])")}}}};
  fake_.serve("get cachebackends.larder.dev shared --output json --namespace models",
              backend.dump());
  const auto unused = check_backend(words({"backend", "check", "shared"}), cluster_);
  ASSERT_TRUE(unused.ok()) << unused.status().text();
  EXPECT_EQ(unused->exit_status, 0);
  EXPECT_NE(unused->text.find("CacheBackend models/shared serves: Valkey 8.0.1."),
            std::string::npos)
      << unused->text;

  const json pool = {{"metadata", {{"name", "chat"}, {"namespace", "models"}}},
                     {"spec", {{"backendRef", {{"name", "shared"}}}}}};
  fake_.serve(kPools, list(json::array({pool})).dump());
  fake_.serve(
      "get --raw "
      "/api/v1/namespaces/models/"
      "pods?limit=250&labelSelector=larder%2Edev%2Fpool%20in%20%28chat%29",
      list(json::array({pod("llm-1", kAsked, true)})).dump());
  stats::Stats stats = ctl::busy_stats();
  stats.backend.place = "redis://cache:6379";
  stats.backend.reason = "WRONGPASS";
  fake_.serve("get --raw /api/v1/namespaces/models/pods/llm-1:9464/proxy/v1/status",
              pages::status_json(stats, true, true));
  const auto refused = check_backend(words({"backend", "check", "shared"}), cluster_);
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->exit_status, 2);
  EXPECT_NE(refused->text.find("1 of 1 larderd cannot use the backend (llm-1): WRONGPASS"),
            std::string::npos)
      << refused->text;
}

TEST_F(PluginCommandsTest, TopShowsRatesOnItsFirstScreen) {
  const json one = pod("llm-1", kAsked, true);
  fake_.serve(
      "get --raw /api/v1/namespaces/models/pods?limit=250&labelSelector=larder%2Edev%2Fpool",
      list(json::array({one})).dump());
  fake_.script("case \"$*\" in *proxy*) cat " + fake_.program() + ".now;; *) printf '%s' '" +
               list(json::array({one})).dump() + "';; esac\n");
  std::ofstream(fake_.program() + ".now") << pages::status_json(ctl::busy_stats(), true, true);
  Arguments arguments = words({"top"});
  arguments.iterations = 1;
  arguments.interval_seconds = 0.1;
  testing::internal::CaptureStdout();
  const auto outcome = top_of_pools(arguments, cluster_);
  const std::string screen = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(outcome.ok()) << outcome.status().text();
  EXPECT_NE(screen.find("llm-1"), std::string::npos) << screen;
  EXPECT_NE(screen.find("768.0 MiB/5.0 GiB"), std::string::npos) << screen;
}

}  // namespace
}  // namespace larder::kubectl
