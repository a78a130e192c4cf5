#include "operator/webhook/review.h"

#include <chrono>
#include <semaphore>

#include "operator/api/base64.h"
#include "operator/api/names.h"
#include "operator/webhook/inject/config_maps.h"

namespace larder::webhook {
namespace {

// Only v1: the chart's configuration names admissionReviewVersions [v1].
constexpr const char* kReviewVersion = "admission.k8s.io/v1";

// Reviews of this size are rare and expensive to parse, so one at a time.
constexpr std::size_t kLargeBytes = 512 * 1024;
constexpr std::chrono::seconds kLargeWait{2};
constexpr std::size_t kMostWarning = 500;
// No ConfigMap is asked for after this time of a review, which has webhook.timeoutSeconds in all.
constexpr std::chrono::milliseconds kMapsTime{300};

// A semaphore, since the thread sanitizer of GCC 12 does not track a timed_mutex.
class LargeTurn {
 public:
  LargeTurn() : taken_(turn_.try_acquire_for(kLargeWait)) {}
  ~LargeTurn() {
    if (taken_) turn_.release();
  }
  LargeTurn(const LargeTurn&) = delete;
  LargeTurn& operator=(const LargeTurn&) = delete;
  bool taken() const { return taken_; }

 private:
  static inline std::binary_semaphore turn_{1};
  const bool taken_;
};

Reviewed refused(const std::string& why) {
  return {400, why + "\n"};
}

// Counts before the parser: each value costs about 100 bytes in memory, and a body of 3 MiB may
// hold 1.5 million values (F-243).
std::size_t count_values(std::string_view json) {
  std::size_t count = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else {
      quoted = c == '"';
      count += c == ',' || c == '[' || c == '{';
    }
  }
  return count;
}

// Invariant: the webhook refuses no pod. allowed is always true, and a failure shows as a warning,
// an annotation and an Event.
std::string answer(const std::string& uid, const api::Object& patch, const std::string& warning) {
  api::Object response = {{"uid", uid}, {"allowed", true}};
  if (!patch.empty()) {
    response["patchType"] = "JSONPatch";
    response["patch"] =
        // The pod may hold invalid UTF-8 in a text; `replace` keeps the answer valid JSON.
        api::to_base64(patch.dump(-1, ' ', false, api::Object::error_handler_t::replace));
  }
  if (!warning.empty())
    response["warnings"] = api::Object::array({"larder: " + warning.substr(0, kMostWarning)});
  const api::Object review = {{"apiVersion", kReviewVersion},
                              {"kind", "AdmissionReview"},
                              {"response", std::move(response)}};
  return review.dump(-1, ' ', false, api::Object::error_handler_t::replace);
}

// Why the request does not concern a pod that may be changed; empty: the request does.
// The chart's rules name pods and CREATE only. A user's own configuration may send more.
std::string why_no_pod(const api::Object& request) {
  const std::string kind = api::text_at(request, "kind.kind"),
                    group = api::text_at(request, "kind.group");
  if (!group.empty() || api::text_at(request, "kind.version") != "v1" || kind != "Pod")
    return "the webhook reviews only pods, not a " +
           (kind.empty() ? std::string("nameless kind") : kind) +
           ": the webhook's rules should name core/v1 pods only";
  if (const std::string part = api::text_at(request, "subResource"); !part.empty())
    return "pods/" + part + " is not reviewed: the webhook's rules should name pods only";
  if (const std::string operation = api::text_at(request, "operation"); operation != "CREATE")
    return "operation " + operation +
           " is not reviewed: the webhook's rules should name CREATE only";
  if (!api::at(request, "object").is_object()) return "the request has no object";
  return "";
}

// Null: no such object. Empty: unknown.
std::optional<api::Object> known(Result<api::Object> found) {
  if (found.ok()) return *std::move(found);
  return found.status().code() == Code::kNotFound ? std::optional(api::Object()) : std::nullopt;
}

// The RuntimeClass with an effect on the injection; "": none.
std::string runtime_class_of(const Input& input) {
  const api::PoolSpec& spec = input.pool->spec;
  // The pod's own class has only its overhead, which is mostly in the pod already (F-450).
  if (const std::string own = api::text_at(input.pod, "spec.runtimeClassName"); !own.empty())
    return !input.surroundings.quotas.empty() && api::at(input.pod, "spec.overhead").empty() ? own
                                                                                             : "";
  // The API server refuses a pod with a class that does not exist (F-430).
  return spec.placement == api::Placement::kSidecar && spec.transfer == api::Transfer::kSidecar
             ? spec.runtime_class
             : "";
}

}  // namespace

// The order is that of cost: size, values, parse, judge.
Reviewed PodReview::operator()(std::string_view body, std::string_view from) const {
  std::optional<LargeTurn> turn;
  if (body.size() > kLargeBytes && !turn.emplace().taken())
    return {503, "other large reviews are being read\n"};
  if (count_values(body) > kMostValues)
    return refused("an AdmissionReview of more than " + std::to_string(kMostValues) + " values");
  const Result<api::Object> review = api::parse_json(body);
  if (!review.ok()) return refused("not an AdmissionReview: " + review.status().text());
  if (api::text_at(*review, "kind") != "AdmissionReview" ||
      api::text_at(*review, "apiVersion") != kReviewVersion)
    return refused(std::string("the webhook accepts only AdmissionReview of ") + kReviewVersion +
                   " (admissionReviewVersions: [v1])");
  const std::string uid = api::text_at(*review, "request.uid");
  if (uid.empty()) return refused("the AdmissionReview has no request.uid");
  const Verdict verdict = judge(api::at(*review, "request"), from);
  return {200, answer(uid, verdict.patch, verdict.why)};
}

PodReview::Verdict PodReview::judge(const api::Object& request, std::string_view from) const {
  // A request without a pod gets the reason as a warning and stays unchanged.
  if (const std::string why = why_no_pod(request); !why.empty()) return {api::Object::array(), why};
  const api::Object& pod = api::at(request, "object");
  // A pod under admission may lack its namespace.
  const std::string ns = api::text_at(request, "namespace");
  Surroundings surroundings = pools_.surroundings(ns, !api::annotation(pod, api::kPoolAnnotation));
  std::optional<PoolRequest> asked = pool_request_of(pod, surroundings.ns);
  if (!asked) return {};  // without match conditions, the API server asks about every pod
  const std::string pool = asked->pool;
  Verdict verdict =
      judge_pod(with_known_variables(pod, ns), ns, *std::move(asked), std::move(surroundings));
  // A dry run leaves no Event, no log line and no count of a pod without a cache.
  if (!verdict.why.empty() && !api::truth_at(request, "dryRun"))
    left_alone_({pod, ns, pool, verdict.pool_uid, verdict.why, verdict.kind, from});
  return verdict;
}

// A slow API server costs a pod the knowledge of its variables, and not its cache.
api::Object PodReview::with_known_variables(const api::Object& pod, const std::string& ns) const {
  const auto until = std::chrono::steady_clock::now() + kMapsTime;
  return with_config_maps(pod, [this, &ns, until](const std::string& name) {
    if (std::chrono::steady_clock::now() > until) return api::Object();
    Result<api::Object> map = pools_.config_map(ns, name);
    return map.ok() ? *std::move(map) : api::Object();
  });
}

Classes PodReview::classes_of(const Input& input) const {
  Classes classes;
  if (const std::string name = runtime_class_of(input); !name.empty())
    classes.runtime = known(pools_.runtime_class(name));
  // A pod waits for ever for a volume of a class that does not exist (F-451).
  if (const auto& disk = input.pool->spec.disk;
      disk && disk->volume == api::DiskVolume::kEphemeralClaim)
    classes.storage = known(pools_.storage_class(disk->storage_class));
  return classes;
}

PodReview::Verdict PodReview::verdict_of(Injection injection, std::string pool_uid) {
  return {std::move(injection.patch), std::move(injection.refused), injection.kind,
          std::move(pool_uid)};
}

PodReview::Verdict PodReview::judge_pod(const api::Object& pod, const std::string& ns,
                                        PoolRequest request, Surroundings surroundings) const {
  const std::string pool = std::move(request.pool);
  // The pool of the namespace's label may be missing as well: inject() gives the reason.
  Input input{pod, ns, pool, {}, {}, defaults_, request.by_pod, std::move(surroundings)};
  Result<api::CachePool> found = pools_.pool(ns, pool);
  // A missing pool goes on to inject(), which names the remedy. Other errors say nothing about the
  // pool (F-238).
  if (!found.ok() && found.status().code() != Code::kNotFound)
    return verdict_of(leave_alone(input, Refusal::kUnreadable,
                                  "CachePool " + pool + " could not be read: " +
                                      found.status().text() + "; the pod starts without a cache"));
  if (found.ok()) input.pool = *std::move(found);
  const std::string pool_uid = input.pool ? input.pool->uid : "";
  // An unreadable backend costs the pod only the backend. The pod has its memory, and the condition
  // BackendReady of the pool names the problem.
  if (input.pool && !input.pool->spec.backend.empty())
    if (Result<api::CacheBackend> backend = pools_.backend(ns, input.pool->spec.backend);
        backend.ok())
      input.backend = *std::move(backend);
  // Larder reads no class of the cluster for the other pods of a namespace with a cache.
  if (input.pool && !needs_no_pool(input)) input.classes = classes_of(input);
  try {
    return verdict_of(inject_(input), pool_uid);
  } catch (const std::exception& error) {  // inject() does not throw; a pod must start despite bugs
    return verdict_of(leave_alone(input, Refusal::kDefect,
                                  std::string("a defect of larder's injector: ") + error.what() +
                                      "; the pod starts without a cache"),
                      pool_uid);
  }
}

}  // namespace larder::webhook
