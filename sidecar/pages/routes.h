// Routes: the answer of each path. The only user of cpp-httplib on the server's side. cpp-httplib
// gets whole requests from memory and never sees a socket: the endpoint of sidecar/http bounds
// connections.
//
// GET /metrics, /healthz, /readyz, /v1/status. If admin verbs are allowed: POST
// /v1/drop?namespace=ID, /v1/clear, /v1/trace?from=N (look-ups of engines, see trace_json()), and
// /v1/prefetch, /v1/pin, /v1/unpin, /v1/evict with a JSON body (status_json.h). A request with an
// Origin header comes from a web page, and verbs refuse the request. An unknown path is 404, a
// wrong method 405.
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

  // `control` and `counters` outlive the routes.
  Routes(stats::Control& control, const http::Counters& counters, Admin admin);
  ~Routes();

  // The whole answer, with headers.
  std::string respond(const std::string& request);

 private:
  class MemoryServer;
  std::unique_ptr<MemoryServer> server_;
};

}  // namespace larder::pages
