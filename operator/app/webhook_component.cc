#include "operator/app/webhook_component.h"

#include "operator/webhook/inject/inject.h"
#include "operator/webhook/object_watch.h"
#include "operator/webhook/owner_event.h"
#include "operator/webhook/review.h"

namespace larder::app {
namespace {

constexpr const char* kPath = "/mutate-v1-pod";

// The Secret is read with the client of the replica: each replica loads the certificate, also those
// that do not lead.
webhook::ReadCertificate certificate_of(const Arguments& arguments, k8s::ApiClient& client) {
  if (!arguments.certificate_directory.empty())
    return webhook::certificate_in_directory(arguments.certificate_directory);
  return webhook::certificate_in_secret(client, arguments.ns, arguments.certificate_secret);
}

}  // namespace

WebhookComponent::WebhookComponent(const Arguments& arguments, const Needs& needs)
    : pools_(needs.informers.pools(), needs.informers.backends(), needs.quick_client,
             needs.informers.namespaces()),
      loader_(certificate_of(arguments, needs.client), acceptor_),
      metrics_(std::make_unique<webhook::WebhookMetrics>(needs.metrics, kPath, acceptor_)) {
  // A mounted folder of cert-manager has no object to watch; the loader looks at the files at
  // intervals.
  if (!arguments.certificate_directory.empty()) return;
  secret_ = webhook::watch_object(
      needs.client, k8s::resources::kSecrets, arguments.ns, arguments.certificate_secret,
      [this] { loader_.look_soon(); }, needs.clock);
}

Result<std::unique_ptr<WebhookComponent>> WebhookComponent::start(const Arguments& arguments,
                                                                  const desired::Defaults& defaults,
                                                                  const Needs& needs) {
  // The parts have addresses before the server starts, since the server calls them.
  std::unique_ptr<WebhookComponent> component(new WebhookComponent(arguments, needs));
  // A pod without a cache shows in a metric, in the log and in an Event. The admission answer
  // carries the reason as a warning, too.
  const auto left_alone = [&events = needs.events,
                           &metrics = *component->metrics_](const webhook::PodReview::Left& left) {
    metrics.left_alone(left.kind);
    webhook::log_left_alone(left);
    if (std::optional<k8s::Event> event = webhook::left_alone_event(left))
      events.record(std::move(*event));
  };
  Result<std::unique_ptr<webhook::AdmissionServer>> server = webhook::AdmissionServer::start(
      {.address = arguments.webhook_address, .path = kPath}, component->acceptor_,
      webhook::PodReview(component->pools_, defaults, webhook::inject, left_alone),
      component->metrics_.get());
  if (!server.ok()) return server.status();
  component->server_ = std::move(*server);
  component->metrics_->watch(needs.metrics, component->server_->counters());
  return component;
}

}  // namespace larder::app
