// HttpServer: /metrics, /healthz, /readyz, /v1/status on config.http.listen. The admin Unix socket
// and a loopback listen address serve the admin verbs, too (routes.h). Bodies, headers, time and
// connections are bounded. Has its own threads; thread-safe.
#pragma once

#include <memory>
#include <string>

#include "shim/base/status.h"
#include "sidecar/config/config.h"
#include "sidecar/stats/control.h"

namespace larder::pages {

class HttpServer {
 public:
  // `control` outlives the server.
  static Result<std::unique_ptr<HttpServer>> start(const config::Config& config,
                                                   stats::Control& control);
  virtual ~HttpServer() = default;  // stops and joins within 2 s
  // "HOST:PORT" with the port in use (http.listen may say port 0); empty without http.listen.
  virtual std::string address() const = 0;
};

}  // namespace larder::pages
