// leader_candidate KUBECONFIG NAME SECONDS: takes part in an election with a lease of SECONDS, and
// writes ConfigMap NAME as fast as possible, as leader or not: only the fence stops its writes.
// Ends on SIGTERM.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "operator/k8s/curl_transport.h"
#include "operator/k8s/http_client.h"
#include "operator/k8s/leader_election.h"
#include "sidecar/base/log.h"

namespace {

volatile std::sig_atomic_t over = 0;

}  // namespace

int main(int argc, char** argv) {
  using namespace larder;
  if (argc != 4) return 2;
  std::signal(SIGTERM, [](int) { over = 1; });
  const std::string name = argv[2];
  const auto seconds = static_cast<std::uint64_t>(std::atoi(argv[3]));
  auto source = k8s::CredentialSource::from_kubeconfig(argv[1]);
  if (!source.ok()) {
    std::fprintf(stderr, "%s\n", source.status().to_string().c_str());
    return 1;
  }
  const base::MonotonicClock monotonic;
  const base::BoottimeClock boottime;
  k8s::Metrics metrics;
  k8s::CurlTransport transport(**source, monotonic);
  k8s::HttpClient of_lease(transport, monotonic, {.deadline = std::chrono::seconds(5)});
  k8s::LeaseOptions options{
      .ns = "default", .name = "candidates", .identity = k8s::unique_identity(name)};
  options.duration_ms = seconds * 1000;
  options.renew_ms = options.margin_ms = options.duration_ms / 6;
  k8s::LeaderElection election(of_lease, options, monotonic, boottime, metrics, [](bool) {});
  k8s::HttpClient fenced(transport, monotonic, {.fence = &election.fence()});
  for (std::uint64_t count = 0; over == 0; ++count) {
    const api::Object map{{"apiVersion", "v1"},
                          {"kind", "ConfigMap"},
                          {"metadata", {{"namespace", "default"}, {"name", name}}},
                          {"data", {{"count", std::to_string(count)}}}};
    const auto written = fenced.apply(k8s::resources::kConfigMaps, map, "");
    if (!written.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}
