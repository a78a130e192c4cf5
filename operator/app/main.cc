// larder-operator: wiring only. Every replica serves webhook, metrics and health; the leader
// reconciles.
#include <malloc.h>

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <vector>

#include "operator/app/arguments.h"
#include "operator/app/cluster_version.h"
#include "operator/app/http_pages.h"
#include "operator/app/leader_components.h"
#include "operator/app/log_metrics.h"
#include "operator/app/metrics_reference.h"
#include "operator/app/readiness.h"
#include "operator/app/shutdown.h"
#include "operator/app/signals.h"
#include "operator/app/switched_fence.h"
#include "operator/app/webhook_component.h"
#include "operator/k8s/curl_transport.h"
#include "operator/k8s/http_client.h"
#include "operator/k8s/leader_election.h"
#include "operator/webhook/certificate_manager.h"
#include "sidecar/base/last_words.h"
#include "sidecar/base/log_drain.h"
#include "sidecar/base/standard_streams.h"
#include "sidecar/config/loader.h"

namespace larder::app {
namespace {

constexpr int kExitArguments = 2, kExitFailure = 1;
constexpr std::chrono::milliseconds kLeaseCall{4'000};  // a late renewal would lose the lease

// Without --kubeconfig the operator is in a pod and uses its service account.
Result<std::unique_ptr<k8s::CredentialSource>> credentials_of(const Arguments& arguments) {
  if (arguments.kubeconfig.empty()) return k8s::CredentialSource::in_cluster();
  return k8s::CredentialSource::from_kubeconfig(arguments.kubeconfig);
}

// The parts in order of construction; destruction is in reverse order.
class Operator {
 public:
  // `stop` ends running calls and refuses new ones. The release of the lease is the only write
  // after the stop.
  Operator(const Arguments& arguments, k8s::CredentialSource& credentials, std::stop_token stop)
      : arguments_(arguments),
        stop_(std::move(stop)),
        // Three clients share one transport and its idle connections.
        transport_(credentials, monotonic_),
        client_(transport_, monotonic_, {.stop = stop_, .metrics = &metrics_}),
        // A review must end within the timeout of the webhook: its live reads have a deadline of
        // their own.
        quick_client_(transport_, monotonic_,
                      {.deadline = std::chrono::milliseconds(webhook::CachedPools::kLiveDeadlineMs),
                       .stop = stop_}),
        // No stop: the release of the lease comes after the stop.
        lease_client_(transport_, monotonic_, {.deadline = kLeaseCall}),
        events_(client_, arguments.identity, monotonic_, metrics_),
        log_metrics_(watch_log(metrics_)) {}

  Status run() {
    // The version decides the shape of every pod, so the webhook starts after the answer.
    const std::optional<bool> native_sidecars = await_native_sidecars(quick_client_, stop_);
    if (!native_sidecars) return {};
    const desired::Defaults defaults{
        .image = arguments_.image,
        .native_sidecars = *native_sidecars,
        .operator_namespace = arguments_.ns,
        .plugin_images = {{api::BackendType::kMooncake, arguments_.mooncake_image},
                          {api::BackendType::kInfiniStore, arguments_.infinistore_image}},
        .pull_secrets = arguments_.image_pull_secrets,
        .image_registry = arguments_.image_registry};
    Informers informers(client_, monotonic_);
    Result<std::unique_ptr<WebhookComponent>> webhook = WebhookComponent::start(
        arguments_, defaults, {client_, quick_client_, informers, events_, metrics_, monotonic_});
    if (!webhook.ok()) return webhook.status();
    // The checks exist before the pages: a probe never sees a page without checks.
    add_checks(health_, informers, [&component = **webhook] { return component.ready(); });
    Result<std::unique_ptr<HttpPages>> metrics =
        HttpPages::metrics_at(arguments_.metrics_address, metrics_, monotonic_);
    if (!metrics.ok()) return metrics.status();
    Result<std::unique_ptr<HttpPages>> health =
        HttpPages::health_at(arguments_.health_address, health_, monotonic_);
    if (!health.ok()) return health.status();
    // A stop before this line must not take the lease.
    if (!stop_.stop_requested()) lead_and_wait(informers, defaults);
    return {};
  }

 private:
  // The loop builds and destroys the leader's parts on this thread alone. tell() comes from the
  // thread of the election.
  void lead_and_wait(Informers& informers, const desired::Defaults& defaults) {
    SwitchedFence fence;
    std::unique_ptr<k8s::LeaderElection> election;
    k8s::ClientOptions options{.stop = stop_, .metrics = &metrics_};
    if (arguments_.leader_elect) options.fence = &fence;
    k8s::HttpClient writer(transport_, monotonic_, options);
    if (arguments_.leader_elect) {
      election = std::make_unique<k8s::LeaderElection>(
          lease_client_,
          k8s::LeaseOptions{.ns = arguments_.ns,
                            .name = arguments_.lease_name,
                            .identity = k8s::unique_identity(arguments_.identity)},
          monotonic_, boottime_, metrics_, [this](bool leads) { tell(leads); });
      // The client exists before the election, and the election needs the lease client: the fence
      // is switched on afterwards. Until then the fence refuses all writes.
      fence.follow(&election->fence());
    } else {
      tell(true);
    }
    std::unique_ptr<LeaderComponents> leader_components;
    std::jthread certificates;
    while (const std::optional<bool> leads = await_change(leader_components != nullptr)) {
      // The parts of the former term end before new ones begin, certificates first.
      certificates = {};
      leader_components.reset();
      if (!*leads) continue;
      leader_components = std::make_unique<LeaderComponents>(LeaderComponents::Replica{
          client_, writer, informers, defaults, arguments_.identity, metrics_, monotonic_});
      if (arguments_.certificate_directory.empty())
        certificates =
            std::jthread([&](const std::stop_token& stop) { manage_certificates(writer, stop); });
    }
    // The fence outlives the election: follow(nullptr) returns when no thread uses the lease any
    // more. From here on every write is refused.
    fence.follow(nullptr);
    election.reset();  // first, so that another replica leads at once
    certificates = {};
    leader_components.reset();
  }

  // A directory of cert-manager needs no manager: cert-manager writes the certificate and the
  // caBundle.
  void manage_certificates(k8s::ApiClient& writer, const std::stop_token& stop) {
    webhook::CertificateManager manager(writer,
                                        {.ns = arguments_.ns,
                                         .secret = arguments_.certificate_secret,
                                         .service = arguments_.webhook_service,
                                         .configuration = arguments_.webhook_configuration},
                                        monotonic_,
                                        [] { return std::int64_t{std::time(nullptr)}; });
    manager.run(stop);
  }

  void tell(bool leads) {
    const std::lock_guard lock(mutex_);
    leads_ = leads;
    changed_.notify_all();
  }
  // Waits for a change and returns whether this replica leads. Empty: stop was requested.
  // A loss and a gain between two looks count as no change: the fence has refused the writes of the
  // time between.
  std::optional<bool> await_change(bool before) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop_, [&] { return leads_ != before; });
    return stop_.stop_requested() ? std::nullopt : std::optional(leads_);
  }

  const Arguments& arguments_;
  const std::stop_token stop_;
  const base::MonotonicClock monotonic_;
  const base::BoottimeClock boottime_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool leads_ = false;
  k8s::Metrics metrics_;
  k8s::HealthChecks health_;
  k8s::CurlTransport transport_;
  k8s::HttpClient client_, quick_client_, lease_client_;
  k8s::EventRecorder events_;  // for the webhook, on every replica
  const std::shared_ptr<void> log_metrics_;
};

int fail(const Status& status, int exit_code) {
  base::log_error(status.text());
  return exit_code;
}

// Exit status 2 for wrong flags, so a crash loop by a typo differs from a failed start.
int run(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  Result<Arguments> arguments = parse_arguments(words, config::process_environment());
  if (!arguments.ok()) {
    base::write_line("larder-operator: " + arguments.status().text() + "\n");
    return kExitArguments;
  }
  if (arguments->help || arguments->metrics_reference) {
    std::fputs(arguments->help ? help_text().c_str() : metrics_reference().c_str(), stdout);
    return 0;
  }
  if (arguments->version) {
    std::printf("larder-operator %s\n", LARDER_VERSION);
    return 0;
  }
  base::set_log_level(arguments->log_level);
  base::set_log_format(base::LogFormat::kJson);
  ::mallopt(M_ARENA_MAX, 2);  // one heap per thread would cost more than the content of all heaps
  // Before the operator's threads start, since threads inherit the mask of blocked signals. The
  // log's own thread blocks all signals.
  const Result<Signals> signals = Signals::take();
  if (!signals.ok()) return fail(signals.status(), kExitFailure);
  const Result<std::unique_ptr<k8s::CredentialSource>> credentials = credentials_of(*arguments);
  if (!credentials.ok()) return fail(credentials.status(), kExitFailure);
  std::stop_source stop;
  const Shutdown shutdown(*signals, stop);
  Operator all(*arguments, **credentials, stop.get_token());
  const Status status = all.run();
  return status.ok() ? 0 : fail(status, kExitFailure);
}

}  // namespace
}  // namespace larder::app

int main(int argc, char** argv) {
  // A closed standard stream would give its number to a socket, and log lines would go to the API
  // server.
  larder::base::open_standard_streams();
  larder::base::bound_terminate();
  // A log file above `ulimit -f` must give an error (EFBIG) and no signal.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    // The drain outlives everything that logs, and writes the last lines after run().
    const larder::base::LogDrain log;
    return larder::base::after_output(larder::app::run(argc, argv));
  } catch (const std::system_error& error) {
    larder::base::write_line(std::string("larder-operator: a thread could not be started: ") +
                             error.what() + "\n");
    larder::base::flush_log(larder::base::LogDrain::kMostToEnd);
    return larder::app::kExitFailure;
  }
}
