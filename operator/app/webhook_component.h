// WebhookComponent: the webhook of this replica. It serves the newest certificate and injects
// caches into annotated pods. Leader and followers run one each. Thread-compatible.
#pragma once

#include <memory>

#include "operator/app/arguments.h"
#include "operator/app/informers.h"
#include "operator/k8s/event_recorder.h"
#include "operator/webhook/admission_server.h"
#include "operator/webhook/certificate_loader.h"
#include "operator/webhook/pool_lookup.h"
#include "operator/webhook/webhook_metrics.h"

namespace larder::app {

class WebhookComponent {
 public:
  struct Needs {  // all members outlive the component
    k8s::ApiClient& client;
    k8s::ApiClient& quick_client;  // calls end within CachedPools::kLiveDeadlineMs
    const Informers& informers;
    k8s::EventRecorder& events;
    k8s::Metrics& metrics;
    const base::Clock& clock;
  };
  static Result<std::unique_ptr<WebhookComponent>> start(const Arguments& arguments,
                                                         const desired::Defaults& defaults,
                                                         const Needs& needs);

  // Whether the webhook has a certificate.
  bool ready() const { return acceptor_.ready(); }

 private:
  WebhookComponent(const Arguments& arguments, const Needs& needs);

  webhook::CachedPools pools_;
  webhook::TlsAcceptor acceptor_;
  webhook::CertificateLoader loader_;
  std::unique_ptr<k8s::Informer> secret_;  // wakes the loader; null: certificate from a folder
  std::unique_ptr<webhook::WebhookMetrics> metrics_;
  std::unique_ptr<webhook::AdmissionServer> server_;
};

}  // namespace larder::app
