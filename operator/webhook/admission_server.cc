#include "operator/webhook/admission_server.h"

#include "sidecar/base/descriptor_limit.h"
#include "sidecar/base/log.h"
#include "sidecar/config/values.h"

namespace larder::webhook {
namespace {

constexpr const char* kFlag = "--webhook-address";
constexpr std::uint64_t kOtherDescriptors = 512;  // for other connections, watches and files

// The API server repeats a review with Retry-After within the webhook's timeout, so that the pod
// still gets its cache.
// F-242: so many reviews at once find no place.
constexpr std::string_view kAskAgain = "Retry-After: 1\r\n";

// keep_alive follows the request: a TLS handshake for each review would delay each pod.
http::Answer to_bytes(const Reviewed& reviewed, bool keep_alive) {
  const bool good = reviewed.http_status == 200;
  return {http::whole_answer(reviewed.http_status, good ? "application/json" : "text/plain",
                             reviewed.body, keep_alive,
                             reviewed.http_status == 503 ? kAskAgain : std::string_view()),
          good};
}

}  // namespace

AdmissionServer::AdmissionServer(const ServerOptions& options, Review review,
                                 ReviewWatcher* watcher)
    : options_(options),
      review_(std::move(review)),
      watcher_(watcher),
      reviewers_(options.reviewers) {}

AdmissionServer::~AdmissionServer() = default;

Result<std::unique_ptr<AdmissionServer>> AdmissionServer::start(const ServerOptions& options,
                                                                const TlsAcceptor& acceptor,
                                                                Review review,
                                                                ReviewWatcher* watcher) {
  const Result<config::ListenAddress> address = config::parse_listen(options.address);
  if (!address.ok())
    return Status(address.status().code(),
                  std::string(kFlag) + " '" + options.address + "' " + address.status().text());
  Result<http::Listener> listener = http::listen_tcp(*address, kFlag);
  if (!listener.ok()) return listener.status();
  listener->hosts = http::Hosts::any();  // safe: browsers reject the certificate for other names
  // Descriptors for all places of the endpoint together: accept() must not fail with EMFILE, which
  // would refuse an API server for another client's connection.
  base::raise_descriptor_limit(options.limits.silent + options.limits.new_clients +
                               options.limits.earned + kOtherDescriptors);
  std::unique_ptr<AdmissionServer> server(new AdmissionServer(options, std::move(review), watcher));
  base::log_info("reviews on " + listener->address + options.path);
  server->endpoint_ = std::make_unique<http::Endpoint>(
      *std::move(listener), options.limits,
      [&self = *server](http::Request request, const http::Reply& reply) {
        self.handle(std::move(request), reply);
      },
      server->clock_, server->counters_,
      [&acceptor](Fd socket) { return acceptor.open(std::move(socket)); });
  return server;
}

// Runs on the endpoint's thread.
// The endpoint's thread serves all connections: it never waits, parses no JSON and asks no API
// server.
void AdmissionServer::handle(http::Request request, const http::Reply& reply) {
  if (request.path() != options_.path)
    return reply(to_bytes({404, "not found: reviews of pods are at " + options_.path + "\n"},
                          request.keep_alive));
  if (request.method() != "POST")
    return reply(to_bytes({405, "an AdmissionReview is sent by POST\n"}, request.keep_alive));
  if (watcher_ != nullptr) watcher_->begun();
  // The latency in the metric includes the wait in the queue, as a client sees it.
  const std::uint64_t begun_ns = clock_.now_ns();
  const std::size_t bytes = request.bytes.size();
  const bool keep_alive = request.keep_alive;
  // shared_ptr, since std::function requires a copyable capture.
  const auto held = std::make_shared<const http::Request>(std::move(request));
  if (reviewers_.take(bytes, [this, held, reply, begun_ns] { answer(*held, reply, begun_ns); }))
    return;
  if (watcher_ != nullptr) watcher_->ended(503, 0);
  reply(to_bytes({503, "too many reviews are waiting\n"}, keep_alive));
}

// Runs on a thread of the reviewers.
void AdmissionServer::answer(const http::Request& request, const http::Reply& reply,
                             std::uint64_t begun_ns) {
  const Reviewed reviewed = review_(request.body(), request.peer);
  reply(to_bytes(reviewed, request.keep_alive));
  if (watcher_ != nullptr)
    watcher_->ended(reviewed.http_status, static_cast<double>(clock_.now_ns() - begun_ns) / 1e9);
}

}  // namespace larder::webhook
