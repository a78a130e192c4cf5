#include "sidecar/ctl/kube/injection_findings.h"

#include <gtest/gtest.h>

namespace larder::kube {
namespace {

using api::Object;

PodSeen annotated(const Object& more = Object::object()) {
  Object pod = Object::parse(R"({
      "metadata": {"name": "llm-7d4", "namespace": "models", "uid": "u1", "creationTimestamp": "2026-11-22T10:00:00Z",
                   "annotations": {"larder.dev/pool": "chat"},
                   "ownerReferences": [{"kind": "ReplicaSet", "name": "llm", "controller": true}]},
      "spec": {"containers": [{"name": "vllm"}]}})");
  pod.merge_patch(more);
  return pod_seen(pod);
}

WebhookSeen working() {
  return {true, "2026-11-01T00:00:00Z", true, true, "larder-webhook", "larder-system"};
}

InjectionFacts facts_of(PodSeen pod) {
  return {.pod = std::move(pod), .pools = {"chat", "code"}, .webhook = working(), .webhook_ready = 1};
}

std::string first_reason(const InjectionFacts& facts) {
  const Findings findings = why_not_injected(facts);
  if (findings.empty()) return "";
  EXPECT_FALSE(findings.front().what.empty());
  EXPECT_FALSE(findings.front().cure.empty()) << findings.front().reason;
  EXPECT_TRUE(has_problem(findings));
  return findings.front().reason;
}

TEST(InjectionFindings, WithoutTheAnnotationThePoolsAreNamed) {
  const Object none = {{"metadata", {{"annotations", nullptr}}}};
  InjectionFacts facts = facts_of(annotated(none));
  EXPECT_EQ(first_reason(facts), "NoAnnotation");
  EXPECT_NE(why_not_injected(facts)[0].what.find("chat, code"), std::string::npos);
  facts.workload = {"Deployment", "llm", {}, {}};
  EXPECT_NE(why_not_injected(facts)[0].cure.find("kubectl patch deployment llm -n models"), std::string::npos);
  facts.workload.own_annotation = "chat";
  EXPECT_EQ(first_reason(facts), "AnnotationNotOnTemplate");
  facts.workload.template_annotation = "chat";
  EXPECT_EQ(first_reason(facts), "MadeBeforeAnnotation");
}

TEST(InjectionFindings, WhereLarderIsNotInstalledNothingElseIsSaid) {
  InjectionFacts facts = facts_of(annotated());
  facts.installed = facts.pools_known = false;
  EXPECT_EQ(first_reason(facts), "NotInstalled");
}

TEST(InjectionFindings, TheInjectorsOwnWordsComeFirst) {
  const auto with = [](const std::string& why) {
    return annotated({{"metadata", {{"annotations", {{"larder.dev/not-injected", why}}}}}});
  };
  InjectionFacts facts = facts_of(with("no container of it (main) starts vLLM in a way that is known; write `vllm serve`"));
  EXPECT_EQ(first_reason(facts), "LeftAlone");
  EXPECT_NE(why_not_injected(facts)[0].what.find("no container of it (main)"), std::string::npos);
  facts.pod = with("there is no CachePool \"chat\" in namespace \"models\"; create it, then start the pod anew");
  EXPECT_EQ(first_reason(facts), "PoolMadeLater");
  facts.pools = {"code"};
  EXPECT_EQ(first_reason(facts), "LeftAlone");
}

// Its namespace asked: the pod has no annotation of its own.
TEST(InjectionFindings, WhatTheNamespaceAskedForIsJudgedToo) {
  const auto without = [](const Object& more) {
    PodSeen seen = annotated({{"metadata", {{"annotations", more}}}});
    return seen;
  };
  InjectionFacts facts = facts_of(without({{"larder.dev/pool", nullptr}, {"larder.dev/not-injected", "no room; raise it"}}));
  EXPECT_EQ(first_reason(facts), "LeftAlone");
  facts.pod = without({{"larder.dev/pool", nullptr}, {"larder.dev/not-injected", "there is no CachePool \"chat\"; create it"}});
  EXPECT_EQ(first_reason(facts), "LeftAlone");
  facts.pod = without({{"larder.dev/pool", nullptr}});
  facts.namespace_pool = "code";
  EXPECT_EQ(first_reason(facts), "NotSeenAsEngine");
  EXPECT_NE(why_not_injected(facts)[0].cure.find("larder.dev/pool: code"), std::string::npos);
}

TEST(InjectionFindings, WhoDeclinesIsToldSo) {
  const PodSeen pod = annotated({{"metadata", {{"annotations", {{"larder.dev/inject", "false"}}}}}});
  EXPECT_FALSE(pod.wanted_pool);
  EXPECT_EQ(first_reason(facts_of(pod)), "Declined");
}

TEST(InjectionFindings, AnEventSpeaksWhereNoAnnotationCouldBeWritten) {
  InjectionFacts facts = facts_of(annotated());
  facts.events = {"its annotations leave no room"};
  EXPECT_EQ(first_reason(facts), "LeftAlone");
}

TEST(InjectionFindings, ThePoolThatIsNotThereAndTheWebhookThatDidNotSay) {
  InjectionFacts facts = facts_of(annotated());
  facts.pools = {"code"};
  EXPECT_EQ(first_reason(facts), "NoSuchPool");
  EXPECT_EQ(why_not_injected(facts).size(), 2U);
}

TEST(InjectionFindings, WhyTheWebhookWasNotAsked) {
  InjectionFacts facts = facts_of(annotated());
  EXPECT_EQ(first_reason(facts), "WebhookWasDown");
  facts.webhook_ready = 0;
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

TEST(WebhookSeenTest, ReadsTheSelectorAsTheApiServerDoes) {
  const Object selector = Object::parse(
      R"({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kube-public"]}]})");
  const auto space = [](const char* name) { return Object{{"metadata", {{"labels", {{"kubernetes.io/metadata.name", name}}}}}}; };
  EXPECT_TRUE(selects(selector, space("models")));
  EXPECT_FALSE(selects(selector, space("kube-system")));
  EXPECT_TRUE(selects(Object(), space("models")));
  EXPECT_FALSE(selects(Object::parse(R"({"matchLabels": {"team": "a"}})"), space("models")));
  EXPECT_FALSE(selects(Object::parse(R"({"matchExpressions": [{"key": "x", "operator": "Exists"}]})"), space("models")));
}

TEST(WebhookSeenTest, FindsOursAmongOthers) {
  const Object other = Object::parse(R"({"webhooks": [{"name": "istio"}]})");
  const Object ours = Object::parse(R"({
      "metadata": {"creationTimestamp": "2026-11-01T00:00:00Z"},
      "webhooks": [{"name": "pods.larder.dev",
                    "clientConfig": {"caBundle": "eA==", "service": {"name": "larder-webhook", "namespace": "ls"}}}]})");
  EXPECT_FALSE(webhook_seen({other}, Object()).there);
  const WebhookSeen seen = webhook_seen({other, ours}, Object());
  EXPECT_TRUE(seen.there && seen.has_authority && seen.takes_namespace);
  EXPECT_EQ(seen.service, "larder-webhook");
}

}  // namespace
}  // namespace larder::kube
