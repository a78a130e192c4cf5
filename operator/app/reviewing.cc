#include "operator/app/reviewing.h"

#include "operator/webhook/inject.h"
#include "operator/webhook/review.h"

namespace larder::app {
namespace {

constexpr const char* kPath = "/mutate-v1-pod";

webhook::ReadCertificate certificate_of(const Arguments& arguments, k8s::ApiClient& client) {
  if (!arguments.certificate_directory.empty()) return webhook::certificate_in_directory(arguments.certificate_directory);
  return webhook::certificate_in_secret(client, arguments.ns, arguments.certificate_secret);
}

// A pod under admission may lack its namespace; its owner has it.
api::Object with_namespace(const api::Object& pod, const std::string& ns) {
  api::Object named = pod;
  named["metadata"]["namespace"] = ns;
  return named;
}

}  // namespace

Reviewing::Reviewing(const Arguments& arguments, const Needs& needs)
    : pools_(needs.watched.pools(), needs.watched.backends(), needs.quick_client),
      metrics_(needs.metrics, kPath),
      loader_(std::make_unique<webhook::CertificateLoader>(certificate_of(arguments, needs.client), acceptor_)) {}

Result<std::unique_ptr<Reviewing>> Reviewing::start(const Arguments& arguments, const desired::Defaults& defaults,
                                                    const Needs& needs) {
  std::unique_ptr<Reviewing> reviewing(new Reviewing(arguments, needs));
  const auto left_alone = [&events = needs.events](const api::Object& pod, const std::string& ns, const std::string& why) {
    k8s::Event event;
    event.regarding = k8s::reference_to(with_namespace(pod, ns));
    event.type = "Warning";
    event.reason = "CacheNotInjected";
    event.action = "Injecting";
    event.note = why;
    events.record(std::move(event));
  };
  Result<std::unique_ptr<webhook::AdmissionServer>> server = webhook::AdmissionServer::start(
      {.address = arguments.webhook_address, .path = kPath}, reviewing->acceptor_,
      webhook::PodReview(reviewing->pools_, defaults, webhook::inject, left_alone), &reviewing->metrics_);
  if (!server.ok()) return server.status();
  reviewing->server_ = std::move(*server);
  return reviewing;
}

}  // namespace larder::app
