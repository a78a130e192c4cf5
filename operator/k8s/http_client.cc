#include "operator/k8s/http_client.h"

#include <algorithm>
#include <random>

#include "operator/api/names.h"
#include "operator/k8s/answers.h"
#include "operator/k8s/metrics.h"
#include "operator/k8s/paths.h"
#include "sidecar/base/nap.h"

namespace larder::k8s {
namespace {

constexpr int kMostTries = 5;  // for answers without Retry-After
constexpr const char* kJson = "application/json";

// A name with invalid UTF-8 must cost one refused request, not an exception.
std::string text_of(const api::Object& object) {
  return object.dump(-1, ' ', false, api::Object::error_handler_t::replace);
}

std::string name_for(const char* verb, const Resource& resource, const std::string& ns,
                     const std::string& name) {
  return std::string(verb) + " " + resource.kind + " " + (ns.empty() ? "" : ns + "/") + name;
}

std::string field_manager() {
  return std::string(api::kFieldManager);
}

}  // namespace

HttpClient::HttpClient(Transport& transport, const base::Clock& clock, ClientOptions options)
    : transport_(transport),
      clock_(clock),
      options_(std::move(options)),
      random_(std::random_device()()) {}

// A number that differs from the last one, enough for jitter.
// Mixing as in the finalizer of MurmurHash3. The counter makes the numbers of parallel threads
// differ.
std::uint32_t HttpClient::random() {
  std::uint32_t mixed = random_.fetch_add(0x9e3779b9) * 0x85ebca6b;
  mixed ^= mixed >> 13;
  return mixed * 0xc2b2ae35;
}

void HttpClient::count(const Request& request, const Result<Response>& response) {
  // The labels have no host and no path: their values would not be bounded.
  if (options_.metrics == nullptr) return;
  const std::string code = response.ok() ? std::to_string(response->status) : "<error>";
  options_.metrics
      ->counter("rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                {{"code", code}, {"method", request.method}})
      .add();
}

// One try within the remaining time of the call and of the fence.
Result<Response> HttpClient::try_once(const Call& call, std::uint64_t deadline_ms) {
  const std::uint64_t now_ms = clock_.now_ms();
  if (now_ms >= deadline_ms) return Status(Code::kDeadlineExceeded, "no answer in time");
  std::uint64_t left_ms = deadline_ms - now_ms;
  Request request = call.request;
  // The stop of the client reaches each request, so a running call ends at once.
  request.stop = options_.stop;
  Query query = call.query;
  if (call.write && options_.fence != nullptr) {
    // The try gets no more time than the fence has. A write whose answer comes after the fence may
    // have happened, and counts as failed.
    request.fence = options_.fence;
    left_ms = std::min(left_ms, options_.fence->left_ms());
    if (left_ms == 0)
      return Status(Code::kFailedPrecondition, "the leader's lease is not held: no write is sent");
    query.emplace_back("timeout", std::to_string(left_ms) + "ms");  // the server gives up as well
  }
  request.timeout = std::chrono::milliseconds(left_ms);
  request.path += query_of(query);
  Result<Response> response = transport_.exchange(request);
  count(request, response);
  return response;
}

// Retries stop at the deadline of the call, at the stop, or after kMostTries. With Retry-After the
// server decides, and only the deadline counts.
Result<Response> HttpClient::call(Call call) {
  const std::uint64_t deadline_ms =
      clock_.now_ms() + static_cast<std::uint64_t>(options_.deadline.count());
  for (int tries = 1;; ++tries) {
    if (options_.stop.stop_requested()) return Status(Code::kUnavailable, call.what + ": stopping");
    Result<Response> response = try_once(call, deadline_ms);
    // 401 once: the kubelet may have replaced the token since it was read.
    const bool again = response.ok()
                           ? is_passing(response->status) || (response->status == 401 && tries == 1)
                           : response.status().code() == Code::kUnavailable;
    // An accepted status is no error for this call, e.g. 404 for a delete.
    if (response.ok() && std::ranges::find(call.accept, response->status) != call.accept.end())
      return response;
    Status status = response.ok() ? status_of(*response, call.what)
                                  : Status(response.status().code(),
                                           call.what + ": " + response.status().text());
    if (status.ok()) return response;
    const auto requested = response.ok() ? retry_after(response->retry_after) : std::nullopt;
    const auto wait = requested.value_or(pause_before(tries, random()));
    const bool in_time = clock_.now_ms() + static_cast<std::uint64_t>(wait.count()) < deadline_ms;
    if (!again || !in_time || (!requested && tries >= kMostTries)) return status;
    (options_.pause ? options_.pause : base::nap)(wait, options_.stop);
  }
}

// A proxy's page with status 200 is no JSON (F-233): the call fails, and no cache takes an empty
// object for the truth.
Result<api::Object> HttpClient::parsed(const Result<Response>& response, const std::string& what) {
  if (!response.ok()) return response.status();
  Result<api::Object> object = api::parse_json(response->body);
  if (!object.ok())
    return Status(object.status().code(),
                  what + ": the answer is no JSON: " + object.status().text());
  if (!object->is_object())
    return Status(Code::kInvalidArgument, what + ": the answer is no object");
  return object;
}

Result<api::Object> HttpClient::call_object(Call call) {
  const std::string what = call.what;
  return parsed(this->call(std::move(call)), what);
}

Result<api::Object> HttpClient::get(const Resource& resource, const std::string& ns,
                                    const std::string& name) {
  Call call{name_for("get", resource, ns, name), {}};
  call.request.path = path_of(resource, ns, name);
  return call_object(std::move(call));
}

Result<api::Object> HttpClient::get_path(const std::string& path) {
  Call call{"get " + path, {}};
  call.request.path = path;
  return call_object(std::move(call));
}

// With fieldManager, `kubectl get --show-managed-fields` names the operator as the writer.
Result<api::Object> HttpClient::create(const Resource& resource, const api::Object& object) {
  const std::string ns = api::namespace_of(object);
  Call call{name_for("create", resource, ns, api::name_of(object)),
            {},
            {{"fieldManager", field_manager()}},
            true};
  call.request = {.method = "POST",
                  .path = path_of(resource, ns),
                  .content_type = kJson,
                  .body = text_of(object)};
  return call_object(std::move(call));
}

// A PUT carries resourceVersion: the API server refuses the write with 409 if another writer came
// first.
Result<api::Object> HttpClient::replace(const Resource& resource, const api::Object& object) {
  const std::string ns = api::namespace_of(object), name = api::name_of(object);
  Call call{name_for("replace", resource, ns, name), {}, {{"fieldManager", field_manager()}}, true};
  call.request = {.method = "PUT",
                  .path = path_of(resource, ns, name),
                  .content_type = kJson,
                  .body = text_of(object)};
  return call_object(std::move(call));
}

Result<api::Object> HttpClient::apply(const Resource& resource, const api::Object& object,
                                      const std::string& subresource) {
  const std::string ns = api::namespace_of(object), name = api::name_of(object);
  Call call{name_for("apply", resource, ns, name),
            {},
            // force takes fields over from kubectl edit and older managers. The operator owns each
            // field that it applies.
            {{"fieldManager", field_manager()}, {"force", "true"}},
            true};
  call.request = {.method = "PATCH",
                  .path = path_of(resource, ns, name, subresource),
                  .content_type = "application/apply-patch+yaml",  // accepts JSON, a subset of YAML
                  .body = text_of(object)};
  return call_object(std::move(call));
}

Result<api::Object> HttpClient::merge(const Resource& resource, const std::string& ns,
                                      const std::string& name, const api::Object& patch) {
  Call call{name_for("patch", resource, ns, name), {}, {{"fieldManager", field_manager()}}, true};
  call.request = {.method = "PATCH",
                  .path = path_of(resource, ns, name),
                  // A merge patch with metadata.uid in the patch is refused for another object of
                  // the same name.
                  .content_type = "application/merge-patch+json",
                  .body = text_of(patch)};
  return call_object(std::move(call));
}

Status HttpClient::remove(const Resource& resource, const std::string& ns, const std::string& name,
                          const std::string& uid) {
  api::Object options{
      // Background: the API server answers at once, and the garbage collector deletes dependents.
      {"apiVersion", "v1"},
      {"kind", "DeleteOptions"},
      {"propagationPolicy", "Background"}};
  // With a uid only the meant object is deleted, never a new object of the same name.
  if (!uid.empty()) options["preconditions"] = {{"uid", uid}};
  Call call{name_for("delete", resource, ns, name), {}, {}, true, {404}};
  if (!uid.empty()) call.accept.push_back(409);  // another object has taken the name
  call.request = {.method = "DELETE",
                  .path = path_of(resource, ns, name),
                  .content_type = kJson,
                  .body = text_of(options)};
  return this->call(std::move(call)).status();
}

}  // namespace larder::k8s
