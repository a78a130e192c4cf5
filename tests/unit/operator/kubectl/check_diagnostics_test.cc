// The findings of `kubectl larder check` from the API server's answers.
#include "operator/kubectl/check_diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/kubectl/check_report.h"

namespace larder::kubectl {
namespace {

using api::Object;
using testing::HasSubstr;

PlannedPod planned_of(const std::string& annotations = R"({"larder.dev/pool": "chat"})") {
  const Object made = {{"apiVersion", "apps/v1"},
                       {"kind", "Deployment"},
                       {"metadata", {{"name", "llm"}, {"namespace", "models"}}},
                       {"spec",
                        {{"replicas", 3},
                         {"template",
                          {{"metadata", {{"annotations", Object::parse(annotations)}}},
                           {"spec", {{"containers", {{{"name", "vllm"}}}}}}}}}}};
  return planned_pods({made}).pods.at(0);
}

// The API server's answers: each time under another name.
Object stored(Object pod, const std::string& suffix) {
  pod["metadata"]["name"] = "llm-" + suffix;
  pod["metadata"]["uid"] = "uid-" + suffix;
  pod["metadata"]["creationTimestamp"] = "2026-11-25T22:00:00Z";
  pod["status"] = {{"phase", "Pending"}};
  pod["spec"]["volumes"] = {{{"name", "kube-api-access-" + suffix}}};
  pod["spec"]["containers"][0]["volumeMounts"] = {
      {{"name", "kube-api-access-" + suffix}, {"mountPath", "/var/run"}}};
  return pod;
}

Object injected(Object pod) {
  pod["metadata"]["annotations"]["larder.dev/injected"] = "0.1.0/chat";
  pod["metadata"]["labels"] = {{"larder.dev/pool", "chat"}};
  pod["spec"]["initContainers"] = {{{"name", "larder-payload"}},
                                   {{"name", "larder"}, {"restartPolicy", "Always"}}};
  return pod;
}

Trial taken(const Object& pod) {
  return {pod, "", {}, {}};
}
Trial refused(const std::string& words) {
  return {{}, words, {}, {}};
}

CheckFacts facts_of(Trial with) {
  const PlannedPod planned = planned_of();
  return {planned, std::move(with), taken(stored(without_larder(planned.pod), "bare1")), {}, {},
          {}};
}

CheckReport report_of(const CheckFacts& facts) {
  return {{check_pod(facts)}, {}, ""};
}

std::string reason_of(const Checked& checked) {
  return checked.findings.empty() ? "" : checked.findings.front().reason;
}

TEST(CheckFindings, DiffShowsOnlyChangesByLarder) {
  const CheckReport report =
      report_of(facts_of(taken(injected(stored(planned_of().pod, "with2")))));
  EXPECT_EQ(report.pods[0].verdict, Verdict::kInjected);
  EXPECT_EQ(check_status(report), 0);
  EXPECT_EQ(check_text(report),
            "Deployment models/llm: the pods get a cache of pool chat.\n"
            "--- without Larder\n"
            "+++ with Larder\n"
            "@@ -1,6 +1,11 @@\n"
            " apiVersion: v1\n"
            " kind: Pod\n"
            " metadata:\n"
            "+  annotations:\n"
            "+    larder.dev/injected: \"0.1.0/chat\"\n"
            "+    larder.dev/pool: chat\n"
            "+  labels:\n"
            "+    larder.dev/pool: chat\n"
            "   name: llm\n"
            "   namespace: models\n"
            " spec:\n"
            "@@ -9,5 +14,9 @@\n"
            "     volumeMounts:\n"
            "     - mountPath: /var/run\n"
            "       name: kube-api-access\n"
            "+  initContainers:\n"
            "+  - name: larder-payload\n"
            "+  - name: larder\n"
            "+    restartPolicy: Always\n"
            "   volumes:\n"
            "   - name: kube-api-access\n"
            "\n"
            "No object was created.\n");
}

TEST(CheckFindings, RefusingComponentIsReportedWithItsMessage) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"(pods "llm-x" is forbidden: exceeded quota: team, requested: limits.memory=9Gi, )"
       R"(used: limits.memory=60Gi, limited: limits.memory=64Gi)",
       "Quota"},
      {R"(pods "llm-x" is forbidden: failed quota: team: must specify limits.cpu for: larder)",
       "Quota"},
      {R"(pods "llm-x" is forbidden: [minimum cpu usage per Container is 100m, )"
       R"(but request is 10m])",
       "LimitRange"},
      {R"(pods "llm-x" is forbidden: maximum memory usage per Pod is 66Gi, but limit is 70Gi)",
       "LimitRange"},
      {R"(pods "llm-x" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes)",
       "PodSecurity"},
      {R"(pods "llm-x" is forbidden: unable to validate against any security context constraint: )"
       R"([provider restricted-v2: ...])",
       "SecurityContextConstraint"},
      {R"(admission webhook "policy.example.com" denied the request: no images from there)",
       "Policy"},
      {R"(pods "llm-x" is forbidden: imagePullSecrets[0].name="larder" is not allowed because )"
       R"(service account runner does not reference that imagePullSecret)",
       "PullSecret"},
      {R"(pods "llm-x" is forbidden: pod tolerations (possibly merged with namespace default )"
       R"(tolerations) conflict with its namespace whitelist)",
       "Tolerations"},
      {R"(Pod "llm-x" is invalid: spec.containers[0].image: Required value)", "InvalidPod"},
      {R"(something new)", "Refused"}};
  for (const auto& [words, reason] : cases) {
    CheckFacts facts = facts_of(refused(words));
    Checked checked = check_pod(facts);
    EXPECT_EQ(checked.verdict, Verdict::kRefused);
    EXPECT_EQ(reason_of(checked), reason);
    EXPECT_EQ(checked.findings[0].what,
              "the API server refuses the pod because of Larder's additions: " + words);
    facts.without = refused(words);
    checked = check_pod(facts);
    EXPECT_EQ(reason_of(checked), reason);
    EXPECT_EQ(checked.findings[0].what,
              "the API server refuses the pod, with Larder and without: " + words);
    EXPECT_THAT(checked.findings[0].remedy, HasSubstr("without Larder, too"));
    EXPECT_EQ(check_status(report_of(facts)), 1);
  }
}

// The pod itself is well: its missing objects are to be made, by the same files or by others.
TEST(CheckFindings, MissingObjectsOfTheFilesAreToBeAppliedFirst) {
  struct Case {
    std::string words, made, remedy;
  };
  const std::vector<Case> cases{
      {R"(pods "llm-" is forbidden: error looking up service account models/runner: )"
       R"(serviceaccount "runner" not found)",
       "ServiceAccount runner", "create the service account"},
      {R"(namespaces "models" not found)", "Namespace models",
       "create the namespace, or name another"},
      {R"(pods "llm-x" is forbidden: no PriorityClass with name gpu was found)",
       "PriorityClass gpu", "create the PriorityClass"},
      {R"(pods "llm-x" is forbidden: pod rejected: RuntimeClass "gpus" not found)",
       "RuntimeClass gpus", "create the RuntimeClass"}};
  for (const auto& [words, made, remedy] : cases) {
    CheckFacts facts = facts_of(refused(words));
    facts.without = refused(words);
    EXPECT_THAT(check_pod(facts).findings.at(0).remedy, HasSubstr(remedy));
    facts.needed = {made};
    EXPECT_THAT(check_pod(facts).findings.at(0).remedy, HasSubstr("the files create " + made));
  }
  Object pod = stored(planned_of().pod, "x");
  pod["metadata"]["annotations"]["larder.dev/not-injected"] =
      R"(there is no CachePool "chat" in namespace "models")";
  CheckFacts facts = facts_of(taken(pod));
  EXPECT_EQ(reason_of(check_pod(facts)), "NoSuchPool");
  EXPECT_EQ(check_pod(facts).findings[0].remedy, "");
  facts.needed = {"Namespace models", "CachePool chat"};
  EXPECT_THAT(check_pod(facts).findings[0].remedy, HasSubstr("the files create CachePool chat"));
  pod["metadata"]["annotations"]["larder.dev/not-injected"] =
      R"(the cluster has no StorageClass "nvme", which CachePool chat names)";
  facts = facts_of(taken(pod));
  EXPECT_EQ(reason_of(check_pod(facts)), "LeftAlone");
  facts.needed = {"CachePool chat", "StorageClass nvme"};
  EXPECT_THAT(check_pod(facts).findings[0].remedy, HasSubstr("the files create StorageClass nvme"));
}

TEST(CheckFindings, PodNotInjectedIsAProblem) {
  Object pod = stored(planned_of().pod, "x");
  pod["metadata"]["annotations"]["larder.dev/not-injected"] = "no container of the pod starts vLLM";
  const CheckReport report = report_of(facts_of(taken(pod)));
  EXPECT_EQ(report.pods[0].verdict, Verdict::kNoCache);
  EXPECT_EQ(reason_of(report.pods[0]), "LeftAlone");
  EXPECT_EQ(check_status(report), 1);
  EXPECT_EQ(check_text(report),
            "Deployment models/llm: the pods start without a cache.\n"
            "! LeftAlone: the injector leaves the pod alone: no container of the pod starts "
            "vLLM\n\nNo object was created.\n");
}

TEST(CheckFindings, AnnotationOutsideTheTemplateIsReported) {
  CheckFacts facts = facts_of(taken(stored(planned_of("{}").pod, "x")));
  facts.planned = planned_of("{}");
  EXPECT_EQ(check_pod(facts).verdict, Verdict::kNotAsked);
  EXPECT_EQ(check_status(report_of(facts)), 1) << "no object asks for a cache";
  facts.planned.own_annotation = "chat";
  EXPECT_EQ(reason_of(check_pod(facts)), "AnnotationNotOnTemplate");
  EXPECT_THAT(check_pod(facts).findings[0].remedy, HasSubstr("spec.template.metadata.annotations"));
}

TEST(CheckFindings, DecliningPodRequestsNoCache) {
  const PlannedPod planned =
      planned_of(R"({"larder.dev/pool": "chat", "larder.dev/inject": "false"})");
  CheckFacts facts = facts_of(taken(stored(planned.pod, "x")));
  facts.planned = planned;
  EXPECT_EQ(check_pod(facts).verdict, Verdict::kNotAsked);
  EXPECT_TRUE(check_pod(facts).findings.empty());
}

TEST(CheckFindings, MissingReviewIsDiagnosedAsForAPod) {
  CheckFacts facts = facts_of(taken(stored(planned_of().pod, "x")));
  facts.injection.emplace();
  facts.injection->pod = pod_seen(facts.with.pod);
  facts.injection->pools = {"chat"};
  facts.injection->planned = true;
  EXPECT_EQ(reason_of(check_pod(facts)), "NoWebhook");
  facts.injection->webhook = {true, "2026-11-01T00:00:00Z", true,
                              true, "larder-webhook",       "larder-system"};
  EXPECT_EQ(reason_of(check_pod(facts)), "WebhookNoAnswer");
  for (const Diagnostic& finding : check_pod(facts).findings)
    EXPECT_EQ(finding.remedy.find("recreate the pod"), std::string::npos);
}

TEST(CheckFindings, NamespaceLabelIsReportedAsTheRequest) {
  CheckFacts facts = facts_of(taken(stored(planned_of("{}").pod, "x")));
  facts.planned = planned_of("{}");
  facts.injection.emplace();
  facts.injection->pod = pod_seen(facts.with.pod);
  facts.injection->pools = {"chat"};
  facts.injection->planned = true;
  facts.injection->namespace_pool = "chat";
  facts.injection->asking = pod_seen(with_pool(facts.with.pod, "chat"));
  facts.injection->webhook = {true, "2026-11-01T00:00:00Z", true,
                              true, "larder-webhook",       "larder-system"};
  EXPECT_EQ(check_pod(facts).verdict, Verdict::kNoCache);
  EXPECT_EQ(reason_of(check_pod(facts)), "WebhookNoAnswer");
  EXPECT_THAT(check_text(report_of(facts)),
              HasSubstr("the namespace asks for caches of pool chat"));
  facts.injection->asking->not_injected = "no container of the pod starts vLLM";
  EXPECT_EQ(check_pod(facts).verdict, Verdict::kNotAsked);
  EXPECT_EQ(reason_of(check_pod(facts)), "NotSeenAsEngine");
  facts.injection.reset();
  facts.namespace_known = Status(Code::kPermissionDenied, "namespaces is forbidden");
  EXPECT_EQ(check_pod(facts).verdict, Verdict::kNotAsked);
  EXPECT_EQ(reason_of(check_pod(facts)), "NamespaceNotRead");
}

TEST(CheckFindings, FailedDryRunHasUnknownVerdict) {
  CheckFacts facts = facts_of({});
  facts.with.asked = Status(Code::kPermissionDenied, "pods is forbidden");
  EXPECT_EQ(check_pod(facts).verdict, Verdict::kUnknown);
  EXPECT_THAT(check_pod(facts).findings[0].remedy, HasSubstr("right to create pods"));
  EXPECT_EQ(check_status(report_of(facts)), 2);
  CheckReport report = report_of(facts_of(taken(injected(stored(planned_of().pod, "x")))));
  EXPECT_EQ(check_status(report), 0);
  report.unread = "no matches for kind";
  EXPECT_EQ(check_status(report), 2);
}

TEST(CheckFindings, AdmittedPodHasNotesAndWarnings) {
  CheckFacts facts = facts_of(taken(injected(stored(planned_of().pod, "x"))));
  facts.with.pod["metadata"]["annotations"]["openshift.io/scc"] = "restricted-v2";
  facts.with.warnings = {"larder: of ours", "would violate PodSecurity", "known"};
  facts.without.warnings = {"known"};
  facts.quotas = {"team"};
  const Checked checked = check_pod(facts);
  EXPECT_EQ(checked.verdict, Verdict::kInjected);
  std::string said;
  for (const Diagnostic& one : checked.findings)
    said += std::to_string(static_cast<int>(one.weight)) + one.reason + " ";
  EXPECT_EQ(said, "1Warning 2Warning 2SecurityContextConstraint 2OneOfMany ");
  EXPECT_FALSE(has_problem(checked.findings));
}

TEST(CheckFindings, ReportIsWrittenAsYamlAndJson) {
  const CheckReport report{{check_pod(facts_of(taken(injected(stored(planned_of().pod, "x"))))),
                            check_pod(facts_of(refused("exceeded quota: team")))},
                           {"InferenceService models/i"},
                           ""};
  EXPECT_THAT(check_yaml(report),
              testing::StartsWith("# Deployment models/llm, spec.template: the pods get a cache of "
                                  "pool chat.\napiVersion: v1\n"));
  EXPECT_THAT(
      check_yaml(report),
      HasSubstr("---\n# Deployment models/llm, spec.template: the pods are refused.\n# ! Quota: "));
  const Object json = Object::parse(check_json(report));
  EXPECT_EQ(json["well"], false);
  EXPECT_EQ(json["checked"][0]["verdict"], "injected");
  EXPECT_EQ(json["checked"][0]["pod"]["metadata"]["name"], "llm");
  EXPECT_EQ(json["checked"][1]["verdict"], "refused");
  EXPECT_EQ(json["checked"][1]["pod"], nullptr);
  EXPECT_EQ(json["withoutTemplate"][0], "InferenceService models/i");
}

}  // namespace
}  // namespace larder::kubectl
