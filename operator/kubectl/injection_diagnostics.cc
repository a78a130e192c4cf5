#include "operator/kubectl/injection_diagnostics.h"

#include <algorithm>

#include "operator/reconcile/conditions.h"

namespace larder::kubectl {
namespace {

using Weight = Diagnostic::Weight;

// The API server asks the webhook only at the creation of a pod.
// An annotation that is added to a running pod has no effect.
std::string anew(const InjectionFacts& facts) {
  const PodState& pod = facts.pod;
  if (facts.planned) return "check again";
  return pod.owner_kind.empty()
             ? "recreate the pod"
             : "kubectl delete pod " + pod.view.name + " -n " + pod.view.ns +
                   ": the injector reviews the next pod of the " + pod.owner_kind;
}

// A merge patch of the template: the controller then creates new pods, which the webhook reviews.
std::string annotate(const InjectionFacts& facts) {
  const std::string pool = !facts.namespace_pool.empty() ? facts.namespace_pool
                           : facts.pools.empty()         ? "POOL"
                                                         : facts.pools.front();
  const std::string patch =
      R"( --type merge -p '{"spec":{"template":{"metadata":{"annotations":{"larder.dev/pool":")" +
      pool + R"("}}}}}')";
  const WorkloadState& workload = facts.workload;
  if (workload.name.empty()) return "annotate the pod template with larder.dev/pool: " + pool;
  // kubectl takes kinds in lower case; the kind comes from the owner reference ("Deployment").
  std::string kind = workload.kind;
  std::ranges::transform(kind, kind.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return "kubectl patch " + kind + " " + workload.name + " -n " + facts.pod.view.ns + patch;
}

Diagnostic no_annotation(const InjectionFacts& facts) {
  const WorkloadState& workload = facts.workload;
  const std::string whose = workload.kind + " " + workload.name;
  if (workload.template_annotation)
    return {Weight::kProblem, "MadeBeforeAnnotation",
            "the pod has no annotation larder.dev/pool; the template of " + whose +
                " has the annotation now: the pod is older",
            anew(facts)};
  if (workload.own_annotation)
    return {Weight::kProblem, "AnnotationNotOnTemplate",
            "the annotation larder.dev/pool is on " + whose +
                " itself, not on the pod template: pods do not inherit the annotation",
            annotate(facts)};
  return {Weight::kProblem, "NoAnnotation",
          "the pod has no annotation larder.dev/pool" +
              (facts.pools_known
                   ? "; pools of namespace " + facts.pod.view.ns + ": " + list_of(facts.pools)
                   : ""),
          facts.pools_known && facts.pools.empty()
              ? "create a CachePool in that namespace, then annotate the pod template with the "
                "name of the CachePool"
              : annotate(facts)};
}

// The pool in the pod's annotation, which outranks the namespace's label.
std::string asked_pool(const InjectionFacts& facts) {
  return facts.pod.wanted_pool.value_or(facts.namespace_pool);
}

bool has_pool(const InjectionFacts& facts) {
  return std::ranges::find(facts.pools, asked_pool(facts)) != facts.pools.end();
}

// The pools are listed: most wrong names are typing errors.
Diagnostic no_such_pool(const InjectionFacts& facts) {
  const char* const where = facts.pod.wanted_pool ? "in the pod template" : "of the namespace";
  return {Weight::kProblem, "NoSuchPool",
          "there is no CachePool \"" + asked_pool(facts) + "\" in namespace " + facts.pod.view.ns +
              "; there are: " + list_of(facts.pools),
          "create the CachePool, or correct larder.dev/pool " + std::string(where) + "; then " +
              anew(facts)};
}

// The injector saw the pod and did not change it.
// The pool may exist by now. The pod then needs only a new creation.
Diagnostic left_alone(const InjectionFacts& facts, const std::string& why) {
  const bool by_now = facts.pools_known && facts.pod.wanted_pool && has_pool(facts) &&
                      why.starts_with("there is no CachePool");
  if (by_now)
    return {Weight::kProblem, "PoolMadeLater",
            "the pod is older than CachePool \"" + *facts.pod.wanted_pool + "\"", anew(facts)};
  return {Weight::kProblem, "LeftAlone", "the injector left the pod alone: " + why,
          "remove the reason; then " + anew(facts)};
}

// In the chart, the operator's Deployment and the webhook's Service have the same name.
std::string operator_logs(const WebhookState& webhook) {
  constexpr std::string_view kEnd = "-webhook";
  const bool of_the_chart = webhook.service.ends_with(kEnd);
  const std::string name =
      of_the_chart ? webhook.service.substr(0, webhook.service.size() - kEnd.size()) : "larder";
  if (webhook.service.empty()) return "read the log of larder-operator";
  return "kubectl logs -n " + webhook.service_namespace + " deployment/" + name + "-operator";
}

// The address that a firewall must open: the webhook's port for the API server.
std::string may_it_reach(const InjectionFacts& facts) {
  if (!facts.webhook.url.empty())
    return "check whether the API server can reach " + facts.webhook.url + " (firewalls)";
  const std::string port = facts.serving.port == 0 ? "the port ports.webhook of the chart"
                                                   : "port " + std::to_string(facts.serving.port);
  return "check whether the API server can reach " + port + " of the operator's pods (firewalls)";
}

// Why the API server did not ask the webhook or got no answer, as far as the cluster shows. The
// order follows the request: kind of pod, webhook, selector, certificate, age, endpoints. The state
// of now stands for the state at the creation of the pod, which no object records.
std::optional<Diagnostic> obstacle(const InjectionFacts& facts) {
  const PodState& pod = facts.pod;
  const WebhookState& webhook = facts.webhook;
  const auto problem = [](const char* reason, const std::string& what, const std::string& remedy) {
    return Diagnostic{Weight::kProblem, reason, what, remedy};
  };
  if (pod.is_static)
    return problem("StaticPod",
                   "the pod is a static pod, which the kubelet runs from a file: webhooks see "
                   "static pods too late",
                   "use a Deployment");
  if (!facts.webhook_known.ok())
    return problem("NotAsked",
                   "the pod has no trace of the injector, and the reason is unknown: " +
                       facts.webhook_known.text(),
                   "run `kubectl larder why` as a user who may read MutatingWebhookConfigurations");
  if (!webhook.there)
    return problem(
        "NoWebhook",
        "the cluster has no webhook " +
            std::string(pod.wanted_pool ? kWebhookName : kNamespaceWebhookName) +
            ": Larder's chart is not installed, was removed, or is older than this program",
        "helm upgrade --install larder charts/larder -n larder-system --create-namespace; then " +
            anew(facts));
  if (!webhook.takes_namespace)
    return problem(
        "NamespaceExcluded",
        "namespace " + pod.view.ns + " is excluded by the webhook's namespaceSelector",
        "use another namespace, or change webhook.excludedNamespaces of the chart; then " +
            anew(facts));
  // The leader writes the caBundle (webhook/certificate_manager.cc). Without a leader the field
  // stays empty.
  if (!webhook.has_authority)
    return problem(
        "NoAuthority",
        "the webhook's configuration has no caBundle, and the API server cannot call the webhook",
        "check whether the operator runs and leads: " + operator_logs(webhook));
  // RFC 3339 times in UTC compare as texts.
  if (!webhook.created.empty() && !pod.created.empty() && pod.created < webhook.created)
    return problem(
        "MadeBeforeInstall",
        "the pod (" + pod.created + ") is older than Larder's webhook (" + webhook.created + ")",
        anew(facts));
  // A Service sends requests to ready replicas only.
  if (facts.serving.ready == 0)
    return problem(
        "WebhookDown",
        "the webhook does not answer now: Service " + webhook.service_namespace + "/" +
            webhook.service + " has no ready endpoint" +
            (facts.planned ? "" : ". The same was probably true at the creation of the pod"),
        "kubectl get pods -n " + webhook.service_namespace + "; once the operator is ready, " +
            anew(facts));
  return std::nullopt;
}

// The remaining explanation, when every part looks right.
Diagnostic no_answer(const InjectionFacts& facts) {
  if (facts.planned)
    return {
        Weight::kProblem, "WebhookNoAnswer",
        "the webhook gave the API server no answer, and the pod then starts without a cache "
        "(failurePolicy Ignore)",
        may_it_reach(facts) + ", and " + operator_logs(facts.webhook) + "; then " + anew(facts)};
  return {Weight::kProblem, "WebhookWasDown",
          "the annotation is younger than the pod, or the webhook gave no answer at the creation "
          "of the pod (the operator was down, or out of reach of the API server); such a pod "
          "starts without a cache (failurePolicy Ignore)",
          anew(facts) + ". If the next pod has no cache either, " + may_it_reach(facts)};
}

// The injector answers and skips a pod whose namespace requests the cache. `facts.asking` has the
// injector's reason.
Diagnostic passed_by(const InjectionFacts& facts, const std::string& asks) {
  if (facts.asking->injected)
    return {Weight::kProblem, "NotSeenAsEngine",
            asks +
                "the injector passes the pod by, although the same pod with the annotation gets a "
                "cache: neither command, flags nor image name vLLM, or the operator may not read "
                "namespaces (the operator's log says so)",
            annotate(facts)};
  return {Weight::kNote, "NotSeenAsEngine",
          asks +
              "the injector passes the pod by. The reason for the same pod with the annotation: " +
              facts.asking->not_injected,
          ""};
}

// A pod whose namespace requests the cache, without a word of the injector.
// Without match on the pod's annotation, the API server asks the second webhook of the chart for
// all pods of the namespace.
Diagnostic asked_by_namespace(const InjectionFacts& facts) {
  const std::string asks = "the namespace asks for caches of pool " + facts.namespace_pool +
                           " (label larder.dev/pool), and ";
  const bool never_asked =
      facts.webhook_known.ok() && !(facts.webhook.there && facts.webhook.takes_namespace);
  const bool silent = facts.asking && !facts.asking->injected && facts.asking->not_injected.empty();
  if (facts.asking && !silent && !never_asked) return passed_by(facts, asks);
  std::optional<Diagnostic> found = obstacle(facts);
  if (found && found->reason == "NotAsked") found.reset();  // the dry run knows more
  if (!found && silent) found = no_answer(facts);
  if (!found)
    return {Weight::kProblem, "NotSeenAsEngine",
            asks +
                "the injector left no word on this pod: the pod has no vLLM, or is older than the "
                "label, or the webhook gave no answer",
            annotate(facts) + "; the next pod has a cache, or a reason in an annotation"};
  found->what =
      asks + found->what + (facts.planned ? ". A new pod of vLLM now starts without a cache" : "");
  return *found;
}

}  // namespace

std::string list_of(const std::vector<std::string>& names) {
  return names.empty() ? "none" : reconcile::some_of(names);
}

Findings why_not_injected(const InjectionFacts& facts) {
  if (!facts.installed)
    return {{Weight::kProblem, "NotInstalled",
             "the cluster knows no CachePools: Larder is not installed",
             "helm install larder charts/larder -n larder-system --create-namespace"}};
  if (facts.pod.declined)
    return {{Weight::kProblem, "Declined",
             "the pod's annotation larder.dev/inject: \"false\" declines a cache",
             "remove the annotation from the pod template; then " + anew(facts)}};
  // The request may come from the namespace.
  // The annotation of the injector comes first: it is certain, and the namespace may have asked.
  if (!facts.pod.not_injected.empty()) return {left_alone(facts, facts.pod.not_injected)};
  const bool misplaced = facts.workload.own_annotation || facts.workload.template_annotation;
  if (!facts.pod.wanted_pool && (facts.namespace_pool.empty() || misplaced))
    return {no_annotation(facts)};
  // An Event is the second-best source: it may be about an earlier pod of the same owner.
  if (!facts.events.empty()) return {left_alone(facts, facts.events.front())};
  Findings findings;
  if (facts.pools_known && !has_pool(facts)) findings.push_back(no_such_pool(facts));
  findings.push_back(facts.pod.wanted_pool ? obstacle(facts).value_or(no_answer(facts))
                                           : asked_by_namespace(facts));
  return findings;
}

}  // namespace larder::kubectl
