#include "operator/app/cluster_version.h"

#include <cstdlib>
#include <string>

#include "sidecar/base/log.h"
#include "sidecar/base/nap.h"

namespace larder::app {
namespace {

// Native sidecars are on by default since Kubernetes 1.29.
constexpr int kMajor = 1, kFirstMinor = 29;

// Other failures (403, a foreign answer) will not end by waiting. The operator then assumes a
// current version.
bool may_answer_later(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadlineExceeded ||
         code == Code::kResourceExhausted || code == Code::kInternal;
}

bool knows(const api::Object& version) {
  // The API server gives both numbers as texts.
  const int major = std::atoi(api::text_at(version, "major").c_str());
  const int minor = std::atoi(api::text_at(version, "minor").c_str());  // "28+" of some vendors
  if (major > 0) return major > kMajor || minor >= kFirstMinor;
  base::log_warning(
      "/version of the API server names no version of Kubernetes: taken for one of 1.29 or newer");
  return true;
}

}  // namespace

// No pod is injected for a guessed version: a wrong guess would keep pods of Jobs from ending, or
// start larderd after its engine (F-234).
std::optional<bool> await_native_sidecars(k8s::ApiClient& client, const std::stop_token& stop,
                                          std::chrono::milliseconds pause) {
  for (bool logged = false; !stop.stop_requested(); base::nap(pause, stop)) {
    const Result<api::Object> version = client.get_path("/version");
    if (version.ok()) return knows(*version);
    if (!may_answer_later(version.status().code())) {
      base::log_warning(
          "the version of this Kubernetes cannot be read, and the operator assumes 1.29 or "
          "newer: " +
          version.status().text());
      return true;
    }
    if (!logged)
      base::log_warning(
          "waiting for the API server, whose version decides how larderd is injected: " +
          version.status().text());
    logged = true;
  }
  return {};
}

}  // namespace larder::app
