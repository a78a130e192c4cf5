// Routes: what each path answers. The only place of the HTTP room that knows cpp-httplib; it gets whole requests from memory and
// never sees a socket.
//
// GET /metrics /healthz /readyz /v1/status; POST /v1/drop?namespace=ID, /v1/clear, /v1/trace?from=N (what engines ask for, as trace_json() has it), and /v1/prefetch, /v1/pin, /v1/unpin, /v1/evict
// with a JSON body (status_json.h), where admin verbs are allowed. A request that carries an Origin header comes from a web page
// and is refused these verbs. An unknown path is 404, another method than a path takes 405.
// Thread-compatible: one caller at a time.
#pragma once

#include <memory>
#include <string>

#include "sidecar/http/endpoint.h"
#include "sidecar/stats/control.h"

namespace larder::pages {

class Routes {
 public:
  enum class Admin { kRefused, kAllowed };

  // Both outlive the routes.
  Routes(stats::Control& control, const http::Counters& counters, Admin admin);
  ~Routes();

  // A whole answer; empty when the request is beyond any answer.
  std::string respond(const std::string& request);

 private:
  class MemoryServer;
  std::unique_ptr<MemoryServer> server_;
};

}  // namespace larder::pages
