// An admission server on a free port of the loopback, with an authority of its own and a review
// that repeats its request.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "operator/webhook/admission_server.h"
#include "tests/unit/operator/webhook/certificate_of_now.h"
#include "tests/unit/operator/webhook/reviews.h"
#include "tests/unit/operator/webhook/tls_client.h"

namespace larder::webhook {

class Serving {
 public:
  // A leaf of the newest authority, served from now on.
  void serve_leaf() {
    const Status status = acceptor.serve(authority_.leaf());
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  void new_authority() { authority_ = TestAuthority(); }

  void start(AdmissionServer::Review review, ServerOptions options = {},
             ReviewWatcher* watcher = nullptr) {
    options.address = "127.0.0.1:0";
    Result<std::unique_ptr<AdmissionServer>> started =
        AdmissionServer::start(options, acceptor, std::move(review), watcher);
    ASSERT_TRUE(started.ok()) << started.status().to_string();
    server = *std::move(started);
  }
  void start() {
    serve_leaf();
    start([](std::string_view body, std::string_view) {
      return Reviewed{200, "reviewed " + std::to_string(body.size())};
    });
  }

  const std::string& bundle() const { return authority_.bundle(); }
  TlsClient connect() const { return connect(http::open_tcp()); }
  TlsClient connect(Fd socket) const {
    return TlsClient(http::connect_tcp(std::move(socket), server->address()),
                     {.bundle = bundle(), .name = kServerName});
  }

  TlsAcceptor acceptor;
  std::unique_ptr<AdmissionServer> server;

 private:
  TestAuthority authority_;
};

}  // namespace larder::webhook
