// A client of a ScriptedServer, with a transport of its own. Pauses between tries are noted and not
// waited for.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "operator/k8s/curl_transport.h"
#include "operator/k8s/http_client.h"
#include "operator/k8s/metrics.h"
#include "tests/unit/operator/k8s/scripted_server.h"

namespace larder::k8s {

inline Credentials credentials_of(const ScriptedServer& server, const std::string& token = "") {
  Credentials credentials;
  credentials.server = server.url();
  credentials.token = token;
  return credentials;
}

struct ClientFixture {
  explicit ClientFixture(ScriptedServer::Script script, ClientOptions options = {})
      : server(std::move(script)),
        credentials(credentials_of(server)),
        transport(credentials, clock) {
    options.metrics = &metrics;
    options.pause = [this](std::chrono::milliseconds pause, const std::stop_token&) {
      const std::lock_guard lock(mutex);
      pauses.push_back(pause);
    };
    client = std::make_unique<HttpClient>(transport, clock, options);
  }

  ScriptedServer server;
  base::MonotonicClock clock;
  Metrics metrics;
  CredentialSource credentials;
  CurlTransport transport;
  std::mutex mutex;
  std::vector<std::chrono::milliseconds> pauses;
  std::unique_ptr<HttpClient> client;
};

}  // namespace larder::k8s
