// AdmissionServer: HTTPS for reviews of the API server: the endpoint of sidecar/http with TLS,
// keep-alive and chunked bodies, and a few reviewing threads. Memory, threads and time are bounded
// whatever clients do. Thread-safe.
//
// Answers: 200 with a review; 400 for a body that is no review or has too many values; 503 with
// Retry-After while too many reviews wait. The API server repeats a 503 within its timeout.
//
// Choice: the webhook uses larderd's endpoint. sidecar/http had the bounds already; TLS,
// keep-alive, chunks and answers from other threads were four small additions behind limits that
// larderd leaves off. The alternative, cpp-httplib with our own `Stream`, has a thread for each
// connection, silent ones too, and a second parser in front of the bounds.
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

// Receives begin and end of each review, for metrics. Called from several threads.
class ReviewWatcher {
 public:
  virtual ~ReviewWatcher() = default;
  virtual void begun() = 0;
  virtual void ended(int http_status, double seconds) = 0;
};

// Room for five API servers with up to 25 connections each. Go's clients close a connection after
// 90 idle seconds. The server waits longer, so that it closes no connection on which a review is
// about to arrive.
inline constexpr http::Limits kAdmissionLimits{.head_bytes = 16 * 1024,
                                               .body_bytes = (3u << 20) + (256u << 10),
                                               .chunked = true,
                                               .silent = 1024,  // a descriptor and half a KiB each
                                               .new_clients = 128,  // up to 128 KiB each in OpenSSL
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

  // `acceptor` and `watcher` (may be null) outlive the server. The server accepts no client before
  // the acceptor has a certificate.
  static Result<std::unique_ptr<AdmissionServer>> start(const ServerOptions& options,
                                                        const TlsAcceptor& acceptor, Review review,
                                                        ReviewWatcher* watcher);
  ~AdmissionServer();  // waits for running reviews, about a second
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
