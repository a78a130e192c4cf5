// HealthChecks: named checks behind /healthz and /readyz, in the form of Kubernetes' own servers.
// sidecar/http serves the pages.
//
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "shim/base/status.h"

namespace larder::k8s {

struct Page {
  int status = 200;
  std::string content_type, body;
};

class HealthChecks {
 public:
  // A check: quick, thread-safe, without waiting. Any client can read the text, so it has no
  // secrets.
  using Check = std::function<Status()>;

  // kLive: /healthz (a failure restarts the container). kReady: /readyz (a failure takes the pod
  // out of its Service).
  enum class Kind { kLive, kReady };
  void add(Kind kind, const std::string& name, Check check);

  // /healthz and /readyz: 200 "ok", or 500 with a line for each check. /readyz/NAME: one check.
  // ?verbose: always with lines. 404 otherwise. `target`: from the first line of the request.
  Page page(std::string_view target) const;

 private:
  using Checks = std::map<std::string, Check>;

  mutable std::mutex mutex_;
  Checks live_, ready_;
};

// The target of "GET TARGET HTTP/1.1..."; empty for another request.
std::string_view get_target(std::string_view request);

}  // namespace larder::k8s
