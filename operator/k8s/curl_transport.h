// CurlTransport: Transport over libcurl. Connections serve one request at a time and are reused.
// TLS 1.2 or newer with a check of the server's certificate; no redirects, no compression.
// Thread-safe.
//
// A token goes over plain HTTP only to this machine (kubectl proxy).
//
// REQUIRES: SIGPIPE is ignored. SIGRTMIN + 4 has no other use, and no writing thread blocks the
// signal (write_guard.h).
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
  static constexpr std::size_t kMostKept = 8;  // idle connections

  // The arguments outlive the transport.
  CurlTransport(CredentialSource& credentials, const base::Clock& clock);
  ~CurlTransport() override;

  Result<Response> exchange(const Request& request) override;
  Result<Response> stream(const Request& request,
                          const std::function<bool(std::string_view)>& on_bytes) override;

 private:
  class Line;  // one connection: a curl multi handle with one easy handle

  Result<Response> run(const Request& request,
                       const std::function<bool(std::string_view)>* on_bytes);
  std::unique_ptr<Line> take(std::uint64_t tls_version);
  void keep(std::unique_ptr<Line> line);

  CredentialSource& credentials_;
  const base::Clock& clock_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Line>> idle_;
};

}  // namespace larder::k8s
