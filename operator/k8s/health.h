// HealthChecks: named checks behind /healthz and /readyz, as Kubernetes' own servers have them. Serving is sidecar/http's.
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
  // Whether something works: quick, thread-safe, waits for nobody. Its text is shown to whoever asks, so it holds no secret.
  using Check = std::function<Status()>;

  // kLive: /healthz (a failure restarts the container); kReady: /readyz (a failure takes it out of its Service).
  enum class Kind { kLive, kReady };
  void add(Kind kind, const std::string& name, Check check);

  // /healthz, /readyz: 200 "ok", or 500 with a line for each check; /readyz/NAME one alone; ?verbose the lines in any case. 404
  // otherwise. `target`: as it stands in the request's first line.
  Page page(std::string_view target) const;

 private:
  using Checks = std::map<std::string, Check>;

  mutable std::mutex mutex_;
  Checks live_, ready_;
};

// The target of "GET TARGET HTTP/1.1..."; empty where the request is another.
std::string_view get_target(std::string_view request);

}  // namespace larder::k8s
