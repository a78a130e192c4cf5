#include "sidecar/supervisor/probe_pages.h"

#include <string_view>

#include "sidecar/base/json_text.h"
#include "sidecar/http/answer.h"

namespace larder::supervisor {
namespace {

// "/healthz" of "GET /healthz?verbose HTTP/1.1"; empty for other methods.
std::string_view path_of(std::string_view request) {
  constexpr std::string_view kGet = "GET ";
  if (!request.starts_with(kGet)) return {};
  request.remove_prefix(kGet.size());
  return request.substr(0, request.find_first_of(" ?\r"));
}

}  // namespace

ProbePages::ProbePages(const base::Clock& clock, unsigned start_grace_ms)
    : clock_(clock), grace_ends_ms_(clock.now_ms() + start_grace_ms), grace_ms_(start_grace_ms) {}

void ProbePages::started() {
  const std::lock_guard lock(mutex_);
  ready_ = false;
  ++starts_;
}

void ProbePages::ready() {
  const std::lock_guard lock(mutex_);
  ready_ = was_ready_ = true;
  out_of_memory_ = false;
  why_.clear();
}

void ProbePages::down(const std::string& why, bool out_of_memory) {
  const std::lock_guard lock(mutex_);
  ready_ = false;
  out_of_memory_ = out_of_memory;
  why_ = why;
}

std::string ProbePages::started_page() const {
  // A start probe that succeeded must stay so: the kubelet would kill the container of a later
  // outage.
  if (was_ready_) return http::plain_answer(200, "larderd was ready");
  // An engine waits for larderd 20 s at most (start_grace_ms). After that the engine starts, and
  // runs without its cache.
  if (clock_.now_ms() < grace_ends_ms_) return http::plain_answer(503, "not ready yet: " + why_);
  return http::plain_answer(200, "not ready after " + std::to_string(grace_ms_ / 1000) +
                                     " s, the engine starts without its cache: " + why_);
}

std::string ProbePages::answer(const std::string& request) const {
  const std::string_view path = path_of(request);
  const std::lock_guard lock(mutex_);
  if (path == "/startupz") return started_page();
  // Liveness shows only whether the supervisor runs. The supervisor restarts larderd itself; a kill
  // by the kubelet would end in CrashLoopBackOff.
  if (path == "/healthz")
    return http::plain_answer(
        200, ready_ ? "larderd is ready" : "the supervisor runs, larderd is not ready: " + why_);
  if (path == "/readyz") return http::plain_answer(ready_ ? 200 : 503, ready_ ? "ready" : why_);
  if (path != "/v1/supervisor")
    return http::plain_answer(
        404, "larderd's supervisor: GET /startupz, /healthz, /readyz, /v1/supervisor");
  const auto truth = [](bool value) { return value ? "true" : "false"; };
  const std::string body = std::string("{\"ready\":") + truth(ready_) +
                           ",\"why\":" + base::json_text(why_) +
                           ",\"starts\":" + std::to_string(starts_) +
                           ",\"out_of_memory\":" + truth(out_of_memory_) + "}";
  return http::whole_answer(200, "application/json", body, false);
}

}  // namespace larder::supervisor
