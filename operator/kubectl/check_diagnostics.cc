#include "operator/kubectl/check_diagnostics.h"

#include <algorithm>
#include <array>

#include "operator/api/names.h"
#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using api::Object;
using Weight = Diagnostic::Weight;

// OpenShift writes the SecurityContextConstraints that accepted the pod here.
constexpr const char* kSccAnnotation = "openshift.io/scc";
constexpr std::string_view kTokenVolume = "kube-api-access-";  // with five random letters

// The author of a refusal, and remedies: `remedy` if the API server accepts the pod without Larder,
// `pod_remedy` if not. The API server gives refusals as text only, so words of Kubernetes'
// messages identify the author; the first match counts.
struct Refuser {
  std::string_view words, reason, remedy;
  std::string_view pod_remedy =
      "correct the pod: the API server refuses the pod without Larder, too";
};
constexpr std::array<Refuser, 16> kRefusers{{
    {"exceeded quota", "Quota",
     "raise the quota for the additions of Larder, or ask for less: memory.size and resources of "
     "the CachePool"},
    {"failed quota", "Quota",
     "the quota requires a figure for every container: set resources of the CachePool"},
    {"violates PodSecurity", "PodSecurity",
     "change podSecurity of the CachePool, or the namespace's label "
     "pod-security.kubernetes.io/enforce"},
    {"unable to validate against any security context constraint", "SecurityContextConstraint",
     "set podSecurity.runAsUser of the CachePool to a number of the namespace's range, "
     "openshift.io/sa.scc.uid-range, except the first"},
    {"per Container is", "LimitRange",
     "change resources of the CachePool, or the LimitRange: kubectl describe limitrange"},
    {"per Pod is", "LimitRange",
     "change memory.size and resources of the CachePool, or the LimitRange: kubectl describe "
     "limitrange"},
    {"ValidatingAdmissionPolicy", "Policy", "allow images and containers of Larder in the policy"},
    {"denied the request", "Policy",
     "allow images and containers of Larder in the policy of that webhook"},
    {"error looking up service account", "NoServiceAccount", "",
     "create the service account, then check again"},
    {"namespaces \"", "NoNamespace", "", "create the namespace, or name another: -n NAMESPACE"},
    {"no PriorityClass", "NoPriorityClass", "",
     "create the PriorityClass, or name another in the pod template"},
    {"RuntimeClass \"", "NoRuntimeClass",
     "create the RuntimeClass, or correct spec.runtimeClassName of the CachePool",
     "create the RuntimeClass, or name another in the pod template"},
    {"runtimeClass.scheduling", "RuntimeClassConflict",
     "name another class in spec.runtimeClassName of the CachePool",
     "write the node selector of the RuntimeClass into the pod template, or name another class"},
    // A service account with the annotation kubernetes.io/enforce-mountable-secrets.
    {"does not reference that imagePullSecret", "PullSecret",
     "list the Secret in imagePullSecrets of the service account"},
    // PodTolerationRestriction: a RuntimeClass brings tolerations.
    {"tolerations (possibly merged with namespace default tolerations)", "Tolerations",
     "allow the tolerations of the pool's RuntimeClass in the namespace's annotation "
     "scheduler.alpha.kubernetes.io/tolerationsWhitelist, or name another class in "
     "spec.runtimeClassName"},
    {"is invalid", "InvalidPod", ""},
}};

Refuser refuser_of(const std::string& refusal) {
  const auto found = std::ranges::find_if(
      kRefusers, [&](const Refuser& one) { return refusal.find(one.words) != std::string::npos; });
  return found == kRefusers.end() ? Refuser{"", "Refused", ""} : *found;
}

// An object of the checked files ("ServiceAccount llm") that the refusal names as missing. `kind`:
// only this kind; empty: any kind.
std::string made_by_the_files(const std::string& words, const std::vector<std::string>& needed,
                              std::string_view kind = "") {
  for (const std::string& one : needed) {
    if (!one.starts_with(kind)) continue;
    const std::string name = one.substr(one.find(' ') + 1);
    for (const std::string& named : {"\"" + name + "\"", "/" + name + ":", " " + name + " "})
      if (words.find(named) != std::string::npos) return one;
  }
  return "";
}

// An object that the files create does not exist yet in a dry run, and the API server refuses a pod
// that refers to it.
std::string apply_first(const std::string& made) {
  return "the files create " + made + ": apply " + made + " first, then check again";
}

// The second dry run decides: a pod that is refused without Larder as well has a fault of its own.
Diagnostic refusal_finding(const CheckFacts& facts) {
  const Refuser refuser = refuser_of(facts.with.refusal);
  const std::string made = made_by_the_files(facts.with.refusal, facts.needed);
  const bool by_larder = facts.without.taken();
  std::string remedy(by_larder ? refuser.remedy : refuser.pod_remedy);
  if (!made.empty() && facts.with.refusal.find("found") != std::string::npos)
    remedy = apply_first(made);
  return {Weight::kProblem, std::string(refuser.reason),
          (by_larder ? "the API server refuses the pod because of Larder's additions: "
                     : "the API server refuses the pod, with Larder and without: ") +
              facts.with.refusal,
          remedy};
}

// A pod has its annotations itself; other kinds have them at the template's path, e.g.
// spec.template.
std::string where_to_annotate(const PlannedPod& planned) {
  return planned.is_pod() ? "metadata.annotations" : planned.path + ".metadata.annotations";
}

Findings no_cache_findings(const CheckFacts& facts, const PodState& seen) {
  if (seen.not_injected.empty())
    return facts.injection ? why_not_injected(*facts.injection) : Findings();
  const bool no_pool = seen.not_injected.starts_with("there is no CachePool");
  const bool no_class = seen.not_injected.find("has no StorageClass") != std::string::npos;
  std::string made;
  if (no_pool || no_class)
    made = made_by_the_files(seen.not_injected, facts.needed,
                             no_pool ? "CachePool " : "StorageClass ");
  return {{Weight::kProblem, no_pool ? "NoSuchPool" : "LeftAlone",
           "the injector leaves the pod alone: " + seen.not_injected,
           made.empty() ? "" : apply_first(made)}};
}

// A pod without a request for a cache. The namespace may request one, and an annotation in the
// wrong place shows the intention.
void judge_not_asked(const CheckFacts& facts, Checked& checked) {
  const PlannedPod& planned = facts.planned;
  if (facts.injection) checked.findings = why_not_injected(*facts.injection);
  if (!facts.namespace_known.ok())
    checked.findings.push_back({Weight::kNote, "NamespaceNotRead",
                                "the label larder.dev/pool of the namespace cannot be read: " +
                                    facts.namespace_known.text(),
                                ""});
  checked.verdict = has_problem(checked.findings) ? Verdict::kNoCache : Verdict::kNotAsked;
  if (!planned.own_annotation) return;
  checked.verdict = Verdict::kNoCache;
  checked.findings.push_back({Weight::kProblem, "AnnotationNotOnTemplate",
                              "the annotation larder.dev/pool is on the " + planned.kind +
                                  " itself, and pods do not inherit the annotation",
                              "write the annotation under " + where_to_annotate(planned)});
}

// An annotation of the injector proves that the webhook was asked. Its absence is judged by the
// facts of gather_silence().
void judge_taken(const CheckFacts& facts, Checked& checked) {
  const PodState seen = pod_seen(facts.with.pod);
  if (seen.injected) {
    checked.verdict = Verdict::kInjected;
    const std::size_t slash = seen.injected_by.find('/');
    checked.pool = slash == std::string::npos ? seen.wanted_pool.value_or("")
                                              : seen.injected_by.substr(slash + 1);
    if (const auto notice = api::annotation(facts.with.pod, api::kNoticeAnnotation))
      checked.findings.push_back({Weight::kNote, "Notice", base::printable(*notice), ""});
  } else if (!seen.wanted_pool && seen.not_injected.empty()) {
    judge_not_asked(facts, checked);
  } else {
    checked.verdict = Verdict::kNoCache;
    checked.findings = no_cache_findings(facts, seen);
  }
}

// Warnings of the API server about an accepted pod.
// A warning that both dry runs have comes from the pod itself.
void add_remarks(const CheckFacts& facts, Checked& checked) {
  for (const std::string& warning : facts.with.warnings) {
    if (warning.starts_with("larder: ")) continue;  // the pod's annotation has the same text
    const bool of_larder =
        facts.without.taken() &&
        std::ranges::find(facts.without.warnings, warning) == facts.without.warnings.end();
    checked.findings.push_back(
        {of_larder ? Weight::kPerhaps : Weight::kNote, "Warning", warning, ""});
  }
  if (const auto scc = api::annotation(facts.with.pod, kSccAnnotation))
    checked.findings.push_back({Weight::kNote, "SecurityContextConstraint",
                                base::printable(*scc) +
                                    " accepts the pod, by your rights or the rights of the service "
                                    "account; if a controller "
                                    "creates the pod, only the rights of the service account count",
                                ""});
  if (facts.planned.copies > 1 && !facts.quotas.empty())
    checked.findings.push_back({Weight::kNote, "OneOfMany",
                                "check tried one pod of " + std::to_string(facts.planned.copies) +
                                    ", and did not ask quota " + list_of(facts.quotas) +
                                    " for room for all",
                                "kubectl describe quota -n " + facts.planned.ns});
}

// The API server adds a token volume with random letters. They would differ between the two dry
// runs and fill the diff.
void rename_token_volume(Object& named) {
  const std::string name = api::text_at(named, "name");
  if (name.starts_with(kTokenVolume))
    named["name"] = std::string(kTokenVolume.substr(0, kTokenVolume.size() - 1));
}

// Removes fields that vary between dry runs, or mean little for a pod that does not exist.
// The diff shows only what Larder changed.
Object form_of(Object pod, const PlannedPod& planned) {
  if (!pod.is_object()) return pod;
  pod.erase("status");
  Object& metadata = pod["metadata"];
  for (const char* given : {"uid", "creationTimestamp", "resourceVersion", "managedFields",
                            "generateName", "generation", "selfLink"})
    metadata.erase(given);
  metadata["name"] = planned.name;
  // without_larder() has set the annotation; only the user's own one is shown.
  if (api::child(metadata, "annotations").is_object() &&
      !api::annotation(planned.pod, api::kInjectAnnotation)) {
    metadata["annotations"].erase(api::kInjectAnnotation);
    if (metadata["annotations"].empty()) metadata.erase("annotations");
  }
  for (const char* list : {"containers", "initContainers"})
    if (api::at(pod, std::string("spec.") + list).is_array())
      for (Object& container : pod["spec"][list])
        if (api::child(container, "volumeMounts").is_array())
          for (Object& mount : container["volumeMounts"]) rename_token_volume(mount);
  if (api::at(pod, "spec.volumes").is_array())
    for (Object& volume : pod["spec"]["volumes"]) rename_token_volume(volume);
  return pod;
}

Object& annotations_of(Object& pod) {
  Object& metadata = pod["metadata"];
  if (!api::child(metadata, "annotations").is_object()) metadata["annotations"] = Object::object();
  return metadata["annotations"];
}

}  // namespace

// The second dry run, without Larder, shows whether a refusal or a warning comes from Larder.
Object without_larder(Object pod) {
  Object& annotations = annotations_of(pod);
  annotations.erase(std::string(api::kPoolAnnotation));
  annotations[api::kInjectAnnotation] = "false";  // overrides a request of the namespace
  return pod;
}

Object with_pool(Object pod, const std::string& pool) {
  annotations_of(pod)[api::kPoolAnnotation] = pool;
  return pod;
}

// A pod that the API server did not judge has no verdict: check must not report a guess.
Checked check_pod(const CheckFacts& facts) {
  Checked checked{facts.planned,
                  Verdict::kUnknown,
                  "",
                  {},
                  form_of(facts.with.pod, facts.planned),
                  form_of(facts.without.pod, facts.planned)};
  if (!facts.with.asked.ok()) {
    checked.findings.push_back(
        {Weight::kProblem, "NotAsked",
         "the API server did not judge the pod: " + facts.with.asked.text(),
         facts.with.asked.code() == Code::kPermissionDenied
             ? "check creates the pod in a dry run, and you need the right to create pods there"
             : ""});
    return checked;
  }
  if (facts.with.taken()) {
    judge_taken(facts, checked);
    add_remarks(facts, checked);
  } else {
    checked.verdict = Verdict::kRefused;
    checked.findings.push_back(refusal_finding(facts));
  }
  return checked;
}

}  // namespace larder::kubectl
