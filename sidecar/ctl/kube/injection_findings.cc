#include "sidecar/ctl/kube/injection_findings.h"

#include <algorithm>

#include "operator/reconcile/conditions.h"

namespace larder::kube {
namespace {

using Weight = Finding::Weight;

// The webhook is asked when a pod is made, and never again.
std::string anew(const InjectionFacts& facts) {
  const PodSeen& pod = facts.pod;
  if (facts.planned) return "check again";
  return pod.owner_kind.empty() ? "make the pod anew"
                                : "kubectl delete pod " + pod.view.name + " -n " + pod.view.ns + ": the next one of its " +
                                      pod.owner_kind + " is looked at anew";
}

std::string annotate(const InjectionFacts& facts) {
  const std::string pool = !facts.namespace_pool.empty() ? facts.namespace_pool
                           : facts.pools.empty()         ? "POOL"
                                                         : facts.pools.front();
  const std::string patch =
      R"( --type merge -p '{"spec":{"template":{"metadata":{"annotations":{"larder.dev/pool":")" + pool + R"("}}}}}')";
  const WorkloadSeen& workload = facts.workload;
  if (workload.name.empty()) return "annotate its pod template with larder.dev/pool: " + pool;
  std::string kind = workload.kind;
  std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return "kubectl patch " + kind + " " + workload.name + " -n " + facts.pod.view.ns + patch;
}

Finding no_annotation(const InjectionFacts& facts) {
  const WorkloadSeen& workload = facts.workload;
  const std::string whose = workload.kind + " " + workload.name;
  if (workload.template_annotation)
    return {Weight::kProblem, "MadeBeforeAnnotation",
            "the pod has no annotation larder.dev/pool; the template of " + whose + " has it by now: the pod is older",
            anew(facts)};
  if (workload.own_annotation)
    return {Weight::kProblem, "AnnotationNotOnTemplate",
            "the annotation larder.dev/pool stands on " + whose + " itself, not on its pod template: pods do not get it",
            annotate(facts)};
  if (!facts.namespace_pool.empty())
    return {Weight::kProblem, "NotSeenAsEngine",
            "its namespace asks for caches of pool " + facts.namespace_pool +
                ", and the injector said nothing of this pod: it found no vLLM in it, or the pod is older than the label, or the "
                "webhook gave no answer",
            annotate(facts) + "; the next pod has its cache, or says why not"};
  return {Weight::kProblem, "NoAnnotation",
          "the pod has no annotation larder.dev/pool" +
              (facts.pools_known ? "; pools of namespace " + facts.pod.view.ns + ": " + list_of(facts.pools) : ""),
          facts.pools_known && facts.pools.empty()
              ? "make a CachePool in that namespace, then annotate the pod template with its name"
              : annotate(facts)};
}

bool has_pool(const InjectionFacts& facts) {
  return std::ranges::find(facts.pools, *facts.pod.wanted_pool) != facts.pools.end();
}

Finding no_such_pool(const InjectionFacts& facts) {
  return {Weight::kProblem, "NoSuchPool",
          "there is no CachePool \"" + *facts.pod.wanted_pool + "\" in namespace " + facts.pod.view.ns +
              "; there are: " + list_of(facts.pools),
          "make it, or correct larder.dev/pool in the pod template; then " + anew(facts)};
}

// The injector looked at it and left it alone.
Finding left_alone(const InjectionFacts& facts, const std::string& why) {
  const bool by_now = facts.pools_known && facts.pod.wanted_pool && has_pool(facts) && why.starts_with("there is no CachePool");
  if (by_now)
    return {Weight::kProblem, "PoolMadeLater",
            "when the pod was made there was no CachePool \"" + *facts.pod.wanted_pool + "\"; by now there is", anew(facts)};
  return {Weight::kProblem, "LeftAlone", "the injector left it alone: " + why, "do what it says; then " + anew(facts)};
}

// The API server did not ask the webhook about it, or had no answer.
Finding not_asked(const InjectionFacts& facts) {
  const PodSeen& pod = facts.pod;
  const WebhookSeen& webhook = facts.webhook;
  const auto problem = [](const char* reason, const std::string& what, const std::string& cure) {
    return Finding{Weight::kProblem, reason, what, cure};
  };
  if (pod.is_static)
    return problem("StaticPod", "it is a static pod, which the kubelet runs from a file: no webhook sees it in time",
                   "use a Deployment");
  if (!facts.webhook_known.ok())
    return problem("NotAsked", "nothing says that the injector saw it; why is not known: " + facts.webhook_known.text(),
                   "ask who may read MutatingWebhookConfigurations for `kubectl larder why`");
  if (!webhook.there)
    return problem(
        "NoWebhook",
        "the cluster has no webhook " + std::string(kWebhookName) + ": Larder's chart is not installed, or was removed",
        "helm install larder charts/larder -n larder-system --create-namespace; then " + anew(facts));
  if (!webhook.takes_namespace)
    return problem("NamespaceExcluded", "namespace " + pod.view.ns + " is excluded by the webhook's namespaceSelector",
                   "take another namespace, or change webhook.excludedNamespaces of the chart; then " + anew(facts));
  if (!webhook.has_authority)
    return problem(
        "NoAuthority", "the webhook's configuration has no caBundle, so that the API server cannot call it",
        "is the operator running and leading? kubectl logs -n " + webhook.service_namespace + " deployment/larder-operator");
  if (!webhook.created.empty() && pod.created < webhook.created)
    return problem("MadeBeforeInstall", "the pod (" + pod.created + ") is older than Larder's webhook (" + webhook.created + ")",
                   anew(facts));
  if (facts.webhook_ready == 0)
    return problem("WebhookDown",
                   "the webhook does not answer now: Service " + webhook.service_namespace + "/" + webhook.service +
                       " has no ready endpoint" + (facts.planned ? "" : ". So it was, it seems, when the pod was made"),
                   "kubectl get pods -n " + webhook.service_namespace + "; once the operator is ready, " + anew(facts));
  if (facts.planned)
    return problem(
        "WebhookNoAnswer",
        "the API server had no answer of the webhook, and lets a pod through without a cache then (failurePolicy Ignore)",
        "may the API server reach port 9443 of the operator's pods (firewalls)? kubectl logs -n " + webhook.service_namespace +
            " deployment/larder-operator; then " + anew(facts));
  return problem(
      "WebhookWasDown",
      "the annotation was added after the pod was made, or the webhook gave no answer then (the operator was down, or the "
      "API server could not reach it); a pod is let through without a cache then (failurePolicy Ignore)",
      anew(facts) + ". If that one has no cache either: may the API server reach port 9443 of the operator's pods (firewalls)?");
}

}  // namespace

std::string list_of(const std::vector<std::string>& names) {
  return names.empty() ? "none" : reconcile::some_of(names);
}

Findings why_not_injected(const InjectionFacts& facts) {
  if (!facts.installed)
    return {{Weight::kProblem, "NotInstalled", "the cluster knows no CachePools: Larder is not installed",
             "helm install larder charts/larder -n larder-system --create-namespace"}};
  if (facts.pod.declined)
    return {{Weight::kProblem, "Declined", "its annotation larder.dev/inject: \"false\" asks for no cache",
             "remove that from the pod template; then " + anew(facts)}};
  if (!facts.pod.not_injected.empty()) return {left_alone(facts, facts.pod.not_injected)};  // its namespace may have asked
  if (!facts.pod.wanted_pool) return {no_annotation(facts)};
  if (!facts.events.empty()) return {left_alone(facts, facts.events.front())};
  Findings findings;
  if (facts.pools_known && !has_pool(facts)) findings.push_back(no_such_pool(facts));
  findings.push_back(not_asked(facts));
  return findings;
}

}  // namespace larder::kube
