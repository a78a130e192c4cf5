// CurlTransport: Transport over libcurl. A connection serves one request at a time and is kept for the next; TLS 1.2 or newer, the
// server's certificate checked; no redirects, no compression. Thread-safe.
//
// REQUIRES: SIGPIPE is ignored, and SIGRTMIN + 4 is nobody else's and blocked in no thread that writes (write_guard.h).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "operator/k8s/credentials.h"
#include "operator/k8s/transport.h"
#include "sidecar/base/clock.h"

namespace larder::k8s {

class CurlTransport final : public Transport {
 public:
  static constexpr std::size_t kMostKept = 8;  // connections that wait for the next request

  // Both outlive it.
  CurlTransport(CredentialSource& credentials, const base::Clock& clock);
  ~CurlTransport() override;

  Result<Response> exchange(const Request& request) override;
  Result<Response> stream(const Request& request, const std::function<bool(std::string_view)>& on_bytes) override;

 private:
  class Line;  // one connection, in curl's terms a multi handle of its own with one easy handle

  Result<Response> run(const Request& request, const std::function<bool(std::string_view)>* on_bytes);
  std::unique_ptr<Line> take(std::uint64_t tls_version);
  void keep(std::unique_ptr<Line> line);

  CredentialSource& credentials_;
  const base::Clock& clock_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Line>> idle_;
};

}  // namespace larder::k8s
