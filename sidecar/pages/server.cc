#include "sidecar/pages/server.h"

#include <unistd.h>

#include <memory>
#include <optional>

#include "sidecar/base/log.h"
#include "sidecar/http/endpoint.h"
#include "sidecar/http/listener.h"
#include "sidecar/pages/routes.h"

namespace larder::pages {
namespace {

class Server final : public HttpServer {
 public:
  explicit Server(stats::Control& control) : control_(control) {}
  ~Server() override {
    // The next larderd would replace the file, too. The unlink tells larderctl at once that larderd
    // is gone.
    if (!admin_path_.empty()) ::unlink(admin_path_.c_str());
  }

  Status open(const config::Config& config) {
    if (!config.http.admin_socket.empty()) {
      Result<http::Listener> admin =
          // The mode of the engines' socket: the file system decides who may use admin verbs.
          http::listen_unix(config.http.admin_socket, config.socket_mode);
      if (!admin.ok()) return admin.status();
      admin_path_ = config.http.admin_socket;
      serve(admin_, std::move(*admin), Routes::Admin::kAllowed);
    }
    if (!config.http.listen.empty()) {
      const Result<config::ListenAddress> address = config::parse_listen(config.http.listen);
      if (!address.ok())
        return {address.status().code(),
                "http.listen " + config.http.listen + " " + address.status().text()};
      Result<http::Listener> tcp = http::listen_tcp(*address);
      if (!tcp.ok()) return tcp.status();
      // The Host header is checked against DNS rebinding: a web page's own name could resolve to
      // this address.
      tcp->hosts = http::Hosts::of(*address, tcp->loopback, config.http.hosts);
      const Routes::Admin admin = tcp->loopback ? Routes::Admin::kAllowed : Routes::Admin::kRefused;
      serve(tcp_, std::move(*tcp), admin);
    }
    return {};
  }

  std::string address() const override { return tcp_ ? tcp_->address() : ""; }

 private:
  void serve(std::optional<http::Endpoint>& endpoint, http::Listener listener,
             Routes::Admin admin) {
    base::log_info("HTTP on " + listener.address +
                   (admin == Routes::Admin::kAllowed ? ", admin verbs too" : ""));
    // shared_ptr because std::function requires a copyable lambda; the endpoint has the only copy.
    const auto routes = std::make_shared<Routes>(control_, counters_, admin);
    // One endpoint and one thread for each address: a flood on the network cannot block the admin
    // socket.
    endpoint.emplace(
        std::move(listener), http::Limits{},
        [routes](const std::string& request) { return routes->respond(request); }, clock_,
        counters_);
  }

  stats::Control& control_;
  const base::MonotonicClock clock_;
  http::Counters counters_;
  std::string admin_path_;
  std::optional<http::Endpoint> admin_, tcp_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const config::Config& config,
                                                      stats::Control& control) {
  auto server = std::make_unique<Server>(control);
  if (Status status = server->open(config); !status.ok()) return status;
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace larder::pages
