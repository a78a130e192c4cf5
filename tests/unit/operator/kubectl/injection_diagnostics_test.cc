#include "operator/kubectl/injection_diagnostics.h"

#include <gtest/gtest.h>

namespace larder::kubectl {
namespace {

using api::Object;

PodState annotated(const Object& more = Object::object()) {
  Object pod = Object::parse(R"({
      "metadata": {"name": "llm-7d4", "namespace": "models", "uid": "u1", "creationTimestamp": "2026-11-22T10:00:00Z",
                   "annotations": {"larder.dev/pool": "chat"},
                   "ownerReferences": [{"kind": "ReplicaSet", "name": "llm", "controller": true}]},
      "spec": {"containers": [{"name": "vllm"}]}})");
  pod.merge_patch(more);
  return pod_seen(pod);
}

WebhookState working() {
  return {true, "2026-11-01T00:00:00Z", true, true, "larder-webhook", "larder-system"};
}

InjectionFacts facts_of(PodState pod) {
  return {
      .pod = std::move(pod), .pools = {"chat", "code"}, .webhook = working(), .serving = {1, 9443}};
}

std::string first_reason(const InjectionFacts& facts) {
  const Findings findings = why_not_injected(facts);
  if (findings.empty()) return "";
  EXPECT_FALSE(findings.front().what.empty());
  EXPECT_FALSE(findings.front().remedy.empty()) << findings.front().reason;
  EXPECT_TRUE(has_problem(findings));
  return findings.front().reason;
}

TEST(InjectionFindings, MissingAnnotationListsThePools) {
  const Object none = {{"metadata", {{"annotations", nullptr}}}};
  InjectionFacts facts = facts_of(annotated(none));
  EXPECT_EQ(first_reason(facts), "NoAnnotation");
  EXPECT_NE(why_not_injected(facts)[0].what.find("chat, code"), std::string::npos);
  facts.workload = {"Deployment", "llm", {}, {}};
  EXPECT_NE(why_not_injected(facts)[0].remedy.find("kubectl patch deployment llm -n models"),
            std::string::npos);
  facts.workload.own_annotation = "chat";
  EXPECT_EQ(first_reason(facts), "AnnotationNotOnTemplate");
  facts.workload.template_annotation = "chat";
  EXPECT_EQ(first_reason(facts), "MadeBeforeAnnotation");
}

TEST(InjectionFindings, MissingInstallationIsTheOnlyFinding) {
  InjectionFacts facts = facts_of(annotated());
  facts.installed = facts.pools_known = false;
  EXPECT_EQ(first_reason(facts), "NotInstalled");
}

TEST(InjectionFindings, InjectorReasonComesFirst) {
  const auto with = [](const std::string& why) {
    return annotated({{"metadata", {{"annotations", {{"larder.dev/not-injected", why}}}}}});
  };
  InjectionFacts facts = facts_of(
      with("no container of the pod (main) starts vLLM in a known way; write `vllm serve`"));
  EXPECT_EQ(first_reason(facts), "LeftAlone");
  EXPECT_NE(why_not_injected(facts)[0].what.find("no container of the pod (main)"),
            std::string::npos);
  facts.pod = with(
      "there is no CachePool \"chat\" in namespace \"models\"; create it, then start the pod anew");
  EXPECT_EQ(first_reason(facts), "PoolMadeLater");
  facts.pools = {"code"};
  EXPECT_EQ(first_reason(facts), "LeftAlone");
}

// The namespace asked: the pod has no annotation of its own.
TEST(InjectionFindings, NamespaceRequestIsDiagnosed) {
  const auto without = [](const Object& more) {
    PodState seen = annotated({{"metadata", {{"annotations", more}}}});
    return seen;
  };
  InjectionFacts facts = facts_of(
      without({{"larder.dev/pool", nullptr}, {"larder.dev/not-injected", "no room; raise it"}}));
  EXPECT_EQ(first_reason(facts), "LeftAlone");
  facts.pod = without({{"larder.dev/pool", nullptr},
                       {"larder.dev/not-injected", "there is no CachePool \"chat\"; create it"}});
  EXPECT_EQ(first_reason(facts), "LeftAlone");
  facts.pod = without({{"larder.dev/pool", nullptr}});
  facts.namespace_pool = "code";
  EXPECT_EQ(first_reason(facts), "NotSeenAsEngine");
  EXPECT_NE(why_not_injected(facts)[0].remedy.find("larder.dev/pool: code"), std::string::npos);
}

TEST(InjectionFindings, DecliningPodIsReported) {
  const PodState pod =
      annotated({{"metadata", {{"annotations", {{"larder.dev/inject", "false"}}}}}});
  EXPECT_FALSE(pod.wanted_pool);
  EXPECT_EQ(first_reason(facts_of(pod)), "Declined");
}

TEST(InjectionFindings, EventReplacesAMissingAnnotation) {
  InjectionFacts facts = facts_of(annotated());
  facts.events = {"the pod's annotations leave no room"};
  EXPECT_EQ(first_reason(facts), "LeftAlone");
}

TEST(InjectionFindings, MissingPoolAndMissingReasonAreReported) {
  InjectionFacts facts = facts_of(annotated());
  facts.pools = {"code"};
  EXPECT_EQ(first_reason(facts), "NoSuchPool");
  EXPECT_EQ(why_not_injected(facts).size(), 2U);
}

TEST(InjectionFindings, MissingReviewIsExplained) {
  InjectionFacts facts = facts_of(annotated());
  EXPECT_EQ(first_reason(facts), "WebhookWasDown");
  facts.serving.ready = 0;
  EXPECT_EQ(first_reason(facts), "WebhookDown");
  facts.webhook.created = "2026-11-22T10:00:01Z";
  EXPECT_EQ(first_reason(facts), "MadeBeforeInstall");
  facts.webhook.has_authority = false;
  EXPECT_EQ(first_reason(facts), "NoAuthority");
  facts.webhook.takes_namespace = false;
  EXPECT_EQ(first_reason(facts), "NamespaceExcluded");
  facts.webhook.there = false;
  EXPECT_EQ(first_reason(facts), "NoWebhook");
  facts.webhook_known = Status(Code::kPermissionDenied, "may not list them");
  EXPECT_EQ(first_reason(facts), "NotAsked");
  facts.pod = annotated({{"metadata", {{"annotations", {{"kubernetes.io/config.mirror", "x"}}}}}});
  EXPECT_EQ(first_reason(facts), "StaticPod");
}

// A firewall must let the values in force through, not the chart's defaults.
TEST(InjectionFindings, PortAndOperatorComeFromTheCluster) {
  InjectionFacts facts = facts_of(annotated());
  facts.serving.port = 10260;
  facts.webhook.service = "team-larder-webhook";
  const auto remedy = [&facts] { return why_not_injected(facts)[0].remedy; };
  EXPECT_NE(remedy().find("port 10260 of the operator's pods"), std::string::npos) << remedy();
  facts.planned = true;
  EXPECT_NE(remedy().find("port 10260 of the operator's pods"), std::string::npos) << remedy();
  EXPECT_NE(remedy().find("kubectl logs -n larder-system deployment/team-larder-operator"),
            std::string::npos)
      << remedy();
  facts.serving.port = 0;
  EXPECT_NE(remedy().find("the port ports.webhook of the chart"), std::string::npos) << remedy();
  EXPECT_EQ(remedy().find("9443"), std::string::npos) << remedy();
  facts.webhook = {true, "", true, true, "", "", "https://10.0.0.7:8443/mutate-v1-pod"};
  EXPECT_NE(remedy().find("reach https://10.0.0.7:8443/mutate-v1-pod"), std::string::npos)
      << remedy();
  EXPECT_EQ(remedy().find("kubectl logs -n  "), std::string::npos) << remedy();
}

PodState unannotated() {
  return annotated({{"metadata", {{"annotations", nullptr}}}});
}

TEST(InjectionFindings, UnavailableWebhookIsReportedForNamespaceRequest) {
  InjectionFacts facts = facts_of(unannotated());
  facts.namespace_pool = "chat";
  facts.planned = true;
  facts.asking = annotated();  // without any word of the injector
  EXPECT_EQ(first_reason(facts), "WebhookNoAnswer");
  facts.serving.ready = 0;
  EXPECT_EQ(first_reason(facts), "WebhookDown");
  const std::string what = why_not_injected(facts)[0].what;
  EXPECT_NE(what.find("the namespace asks for caches of pool chat"), std::string::npos) << what;
  EXPECT_NE(what.find("A new pod of vLLM now starts without a cache"), std::string::npos) << what;
  facts.webhook_known = Status(Code::kPermissionDenied, "may not list them");
  EXPECT_EQ(first_reason(facts), "WebhookNoAnswer") << "the dry run says so";
  facts.webhook_known = {};
  facts.webhook.there = false;
  EXPECT_EQ(first_reason(facts), "NoWebhook");
  EXPECT_NE(why_not_injected(facts)[0].what.find("namespaces.larder.dev"), std::string::npos);
  facts.pools = {"code"};
  EXPECT_EQ(first_reason(facts), "NoSuchPool");
}

TEST(InjectionFindings, OtherPodsOfAnInjectedNamespaceAreNoProblem) {
  InjectionFacts facts = facts_of(unannotated());
  facts.namespace_pool = "chat";
  facts.planned = true;
  facts.asking = annotated(
      {{"metadata", {{"annotations", {{"larder.dev/not-injected", "no container starts vLLM"}}}}}});
  const Findings findings = why_not_injected(facts);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].reason, "NotSeenAsEngine");
  EXPECT_NE(findings[0].what.find("no container starts vLLM"), std::string::npos);
  EXPECT_FALSE(has_problem(findings));
  facts.asking->injected = true;  // the operator cannot know that the namespace asks
  EXPECT_EQ(first_reason(facts), "NotSeenAsEngine");
  // of the namespaces' entry; the entry of annotated pods answered
  facts.webhook.takes_namespace = false;
  EXPECT_EQ(first_reason(facts), "NamespaceExcluded");
}

TEST(ServingSeenTest, PortComesFromSlicesThenService) {
  const Object slice = Object::parse(
      R"({"ports": [{"port": 10260}], "endpoints": [{"conditions": {"ready": true}}, {}]})");
  EXPECT_EQ(serving_seen({slice}, Object()).port, 10260);
  EXPECT_EQ(serving_seen({slice}, Object()).ready, 1);
  const auto service = [](const Object& target) {
    return Object{{"spec", {{"ports", Object::array({{{"port", 443}, {"targetPort", target}}})}}}};
  };
  EXPECT_EQ(serving_seen({}, service(8443)).port, 8443);
  EXPECT_EQ(serving_seen({}, service("webhook")).port, 0) << "without pods a name is unknown";
  EXPECT_EQ(serving_seen({Object::parse(R"({"ports": null, "endpoints": "x"})")}, Object()).port,
            0);
}

TEST(WebhookSeenTest, SelectorMatchesTheApiServer) {
  const Object selector = Object::parse(
      R"({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", )"
      R"("values": ["kube-system", "kube-public"]}]})");
  const auto space = [](const char* name) {
    return Object{{"metadata", {{"labels", {{"kubernetes.io/metadata.name", name}}}}}};
  };
  EXPECT_TRUE(selects(selector, space("models")));
  EXPECT_FALSE(selects(selector, space("kube-system")));
  EXPECT_TRUE(selects(Object(), space("models")));
  EXPECT_FALSE(selects(Object::parse(R"({"matchLabels": {"team": "a"}})"), space("models")));
  EXPECT_FALSE(
      selects(Object::parse(R"({"matchExpressions": [{"key": "x", "operator": "Exists"}]})"),
              space("models")));
}

TEST(WebhookSeenTest, FindsTheLarderWebhookAmongOthers) {
  const Object other = Object::parse(R"({"webhooks": [{"name": "istio"}]})");
  const Object ours = Object::parse(R"({
      "metadata": {"creationTimestamp": "2026-11-01T00:00:00Z"},
      "webhooks": [{"name": "pods.larder.dev",
                    "clientConfig": {"caBundle": "eA==", "service": {"name": "larder-webhook", "namespace": "ls"}}}]})");
  EXPECT_FALSE(webhook_seen({other}, Object()).there);
  EXPECT_FALSE(webhook_seen({other, ours}, Object(), kNamespaceWebhookName).there)
      << "a chart of before namespaces asked";
  const WebhookState seen = webhook_seen({other, ours}, Object());
  EXPECT_TRUE(seen.there && seen.has_authority && seen.takes_namespace);
  EXPECT_EQ(seen.service, "larder-webhook");
}

}  // namespace
}  // namespace larder::kubectl
