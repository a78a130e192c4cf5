// An AdmissionReview of any client that reaches the webhook's port, through the real review and the
// real injector.
//
// Promises: an answer to a review has the review's uid, allows the pod, and its patch fits that
// pod; any other input is refused with a reason; a report about a pod names an object; no exception
// leaves. Input: a byte for the state of the world, then the body, or the pod of a well-formed
// body.
#include "operator/api/base64.h"
#include "operator/api/names.h"
#include "operator/webhook/owner_event.h"
#include "operator/webhook/review.h"
#include "tests/fuzz/input.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using api::Object;

constexpr std::size_t kMostWarning = 600;  // with the prefix "larder: "
enum World : std::uint8_t {
  kPodAlone = 1,
  kNoPool = 2,
  kUnreadable = 4,
  kPlainContainers = 8,
  kWithBackend = 16
};

class Pools final : public webhook::PoolLookup {
 public:
  explicit Pools(std::uint8_t world) : world_(world) {}

  Result<api::CachePool> pool(const std::string&, const std::string&) override {
    if ((world_ & kNoPool) != 0) return Status(Code::kNotFound, "there is none");
    static const test::InjectionCase kUsual = test::container_case("{command: [vllm, serve, m]}");
    api::CachePool pool = *kUsual.pool;
    if ((world_ & kWithBackend) != 0) pool.spec.backend = "redis";
    return pool;
  }
  Result<api::CacheBackend> backend(const std::string& ns, const std::string& name) override {
    if ((world_ & kUnreadable) != 0) return Status(Code::kUnavailable, "no answer");
    api::CacheBackend backend{ns, name, "u", 1, {}};
    backend.spec.endpoints = {"redis:6379"};
    return backend;
  }

 private:
  const std::uint8_t world_;
};

std::string body_of(std::uint8_t world, std::string text) {
  if ((world & kPodAlone) == 0) return text;
  const auto pod = api::parse_json(text);
  if (!pod.ok()) return "";
  return Object{{"apiVersion", "admission.k8s.io/v1"},
                {"kind", "AdmissionReview"},
                {"request",
                 {{"uid", "u"},
                  {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
                  {"namespace", "ml"},
                  {"operation", "CREATE"},
                  {"object", *pod}}}}
      .dump();
}

void check_answer(const Object& asked, const std::string& body) {
  const auto answered = api::parse_json(body);
  must(answered.ok() && api::text_at(*answered, "kind") == "AdmissionReview",
       "an answer is a review");
  const Object& response = api::at(*answered, "response");
  must(api::at(response, "allowed") == true, "a pod is never refused");
  must(api::text_at(response, "uid") == api::text_at(asked, "request.uid"),
       "an answer has the request's uid");
  for (const Object& warning : api::at(response, "warnings"))
    must(warning.is_string() && warning.get_ref<const std::string&>().size() <= kMostWarning,
         "a warning is short");
  if (!response.contains("patch")) return;
  const auto patch =
      api::parse_json(api::from_base64(api::text_at(response, "patch")).value_or("?"));
  must(patch.ok() && patch->is_array() && api::text_at(response, "patchType") == "JSONPatch",
       "a patch is one of JSON");
  // throws for a patch that does not fit this pod
  test::patched(api::at(asked, "request.object"), *patch);
}

void check_told(const webhook::PodReview::Left& left) {
  must(left.kind != webhook::Refusal::kNone && left.kind != webhook::Refusal::kDefect,
       "the injector has no defect");
  must(!left.why.empty(), "a pod left alone has a reason");
  const auto event = webhook::left_alone_event(left);
  if (!event) return;
  must(!api::text_at(event->regarding, "name").empty() &&
           !api::text_at(event->regarding, "kind").empty(),
       "an event is of something");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t world = input.byte();
  const std::string body = body_of(world, input.rest());
  Pools pools(world);
  const webhook::PodReview review(
      pools, {"registry.example/larder:0.1.0", (world & kPlainContainers) == 0}, webhook::inject,
      check_told);
  const webhook::Reviewed reviewed = review(body, "10.0.0.7");
  must(reviewed.http_status == 200 || reviewed.http_status == 400, "an answer, or a refusal");
  must(!reviewed.body.empty(), "a refusal has a reason");
  must((world & kPodAlone) == 0 || body.empty() || reviewed.http_status == 200,
       "a review is answered");
  if (reviewed.http_status == 200) check_answer(*api::parse_json(body), reviewed.body);
  return 0;
}
