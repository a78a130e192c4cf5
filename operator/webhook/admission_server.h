// AdmissionServer: HTTPS for the API server's reviews: sidecar/http's endpoint with TLS, keep-alive and chunked bodies, and a few
// threads that review. Whatever its clients do, memory, threads and time are bounded. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "operator/webhook/review.h"
#include "operator/webhook/reviewers.h"
#include "operator/webhook/tls_acceptor.h"
#include "sidecar/http/endpoint.h"

namespace larder::webhook {

// What the server tells of its reviews, for metrics. Called from several threads.
class ReviewWatcher {
 public:
  virtual ~ReviewWatcher() = default;
  virtual void begun() = 0;
  virtual void ended(int http_status, double seconds) = 0;
};

// An API server keeps up to 25 connections, and there may be five of them. Go's clients close theirs after 90 idle seconds: ours last
// longer, so that none is closed just as a review is sent on it.
inline constexpr http::Limits kAdmissionLimits{.head_bytes = 16 * 1024,
                                               .body_bytes = (3u << 20) + (256u << 10),
                                               .chunked = true,
                                               .silent = 1024,    // a descriptor and half a KiB each
                                               .strangers = 128,  // each may make OpenSSL take 128 KiB for a second ClientHello
                                               .earned = 192,
                                               .held_bytes = 8u << 20,
                                               .requests = 100'000,
                                               .deadline_ms = 5000,
                                               .idle_ms = 120'000};

struct ServerOptions {
  std::string address = ":9443";
  std::string path = "/mutate-v1-pod";
  http::Limits limits = kAdmissionLimits;
  Reviewers::Bounds reviewers = {};
};

class AdmissionServer {
 public:
  using Review = std::function<Reviewed(std::string_view body, std::string_view from)>;

  // `acceptor` and `watcher` (which may be null) outlive the server. Serves nobody until the acceptor has a certificate.
  static Result<std::unique_ptr<AdmissionServer>> start(const ServerOptions& options, const TlsAcceptor& acceptor, Review review,
                                                        ReviewWatcher* watcher);
  ~AdmissionServer();  // waits for the reviews under way: about a second
  AdmissionServer(const AdmissionServer&) = delete;
  AdmissionServer& operator=(const AdmissionServer&) = delete;

  // "HOST:PORT" with the port in use.
  const std::string& address() const { return endpoint_->address(); }
  const http::Counters& counters() const { return counters_; }

 private:
  AdmissionServer(const ServerOptions& options, Review review, ReviewWatcher* watcher);
  void handle(http::Request request, const http::Reply& reply);
  void answer(const http::Request& request, const http::Reply& reply, std::uint64_t begun_ns);

  const ServerOptions options_;
  const Review review_;
  ReviewWatcher* const watcher_;
  const base::MonotonicClock clock_;
  http::Counters counters_;
  Reviewers reviewers_;
  std::unique_ptr<http::Endpoint> endpoint_;  // ends first
};

}  // namespace larder::webhook
