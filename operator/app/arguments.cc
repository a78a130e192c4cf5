#include "operator/app/arguments.h"

#include <algorithm>
#include <array>

#include "sidecar/base/command_line.h"

namespace larder::app {
namespace {

using base::set_flag;
using base::set_text;

// The grammar of Go's flags: --leader-elect takes true or false, as in other operators' charts.
bool set_leader_elect(Arguments& arguments, std::string_view, std::string_view value) {
  arguments.leader_elect = value != "false";
  return value == "true" || value == "false";
}

bool set_log_level(Arguments& arguments, std::string_view, std::string_view value) {
  constexpr std::array<std::string_view, 4> kLevels{"debug", "info", "warning", "error"};
  const auto* found = std::ranges::find(kLevels, value);
  if (found == kLevels.end()) return false;
  arguments.log_level = static_cast<base::LogLevel>(found - kLevels.begin());
  return true;
}

// The names of the chart's podImagePullSecrets, joined by commas.
bool set_pull_secrets(Arguments& arguments, std::string_view, std::string_view value) {
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find(',', at), value.size());
    if (end == at) return false;
    arguments.image_pull_secrets.emplace_back(value.substr(at, end - at));
    at = end + 1;
  }
  return true;
}

// One table for the parser and for --help, so neither can miss a flag.
constexpr base::Option<Arguments> kOptions[] = {
    {"--help", "", set_flag<&Arguments::help>},
    {"--version", "", set_flag<&Arguments::version>},
    {"--metrics-reference", "", set_flag<&Arguments::metrics_reference>},
    {"--namespace", "NAME", set_text<&Arguments::ns>,
     "the namespace of the operator, with the Lease, the Service and the certificate "
     "[POD_NAMESPACE]"},
    {"--image", "IMAGE", set_text<&Arguments::image>,
     "the image of larderd and of the payload container in pods"},
    {"--mooncake-image", "IMAGE", set_text<&Arguments::mooncake_image>,
     "the image of larder-mooncake, for pods of backends of type Mooncake; default: no plug-in"},
    {"--infinistore-image", "IMAGE", set_text<&Arguments::infinistore_image>,
     "the image of larder-infinistore, for type InfiniStore; default: no plug-in"},
    {"--image-registry", "HOST[:PORT][/PATH]", set_text<&Arguments::image_registry>,
     "the registry of managed servers' images, and of images in pools and backends without a host"},
    {"--image-pull-secrets", "NAME,...", set_pull_secrets,
     "pull Secrets for the image of larderd, in the namespace of each pod"},
    {"--kubeconfig", "FILE", set_text<&Arguments::kubeconfig>,
     "the kubeconfig for the API server; default: the service account of the pod"},
    {"--leader-elect", "true|false", set_leader_elect,
     "false: a single replica, without a Lease (true)"},
    {"--lease-name", "NAME", set_text<&Arguments::lease_name>,
     "the Lease of the leader election (larder-operator)"},
    {"--identity", "NAME", set_text<&Arguments::identity>,
     "the name of this replica in the Lease and in Events [POD_NAME]"},
    {"--metrics-address", "HOST:PORT", set_text<&Arguments::metrics_address>,
     "the address of /metrics (:8080)"},
    {"--health-address", "HOST:PORT", set_text<&Arguments::health_address>,
     "the address of /healthz and /readyz (:8081)"},
    {"--webhook-address", "HOST:PORT", set_text<&Arguments::webhook_address>,
     "the address of /mutate-v1-pod, over TLS (:9443)"},
    {"--webhook-service", "NAME", set_text<&Arguments::webhook_service>,
     "the Service of the webhook, named in the certificate (larder-webhook)"},
    {"--webhook-configuration", "NAME", set_text<&Arguments::webhook_configuration>,
     "the MutatingWebhookConfiguration whose caBundle the operator writes (larder)"},
    {"--certificate-secret", "NAME", set_text<&Arguments::certificate_secret>,
     "the Secret for the certificates that the operator creates (larder-webhook-tls)"},
    {"--certificate-directory", "DIR", set_text<&Arguments::certificate_directory>,
     "a folder with tls.crt and tls.key of cert-manager; the operator then creates no certificate "
     "and does not write the caBundle"},
    {"--log-level", "LEVEL", set_log_level, "debug, info, warning, error (info)"},
};
constexpr base::Grammar<Arguments> kGrammar{.unknown = "is no flag of larder-operator (see --help)",
                                            .option_is_no_value = true,
                                            .empty_is_missing = true,
                                            .quotes_word = true};

std::string of(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace

Result<Arguments> parse_arguments(std::span<const std::string_view> words,
                                  const std::map<std::string, std::string>& environment) {
  // The chart gives POD_NAMESPACE and POD_NAME by the downward API; a flag wins.
  Arguments defaults;
  defaults.ns = of(environment, "POD_NAMESPACE");
  defaults.identity = of(environment, "POD_NAME");
  const Result<Arguments> arguments =
      base::parse_command_line<Arguments>(kOptions, kGrammar, words, std::move(defaults));
  // Help needs neither a namespace nor an image.
  if (!arguments.ok() || arguments->help || arguments->version || arguments->metrics_reference)
    return arguments;
  if (arguments->ns.empty())
    return Status(Code::kInvalidArgument, "--namespace is missing, and POD_NAMESPACE is not set");
  if (arguments->image.empty())
    return Status(Code::kInvalidArgument,
                  "--image is missing: the image of larderd and of the payload container in pods");
  return arguments;
}

// Flags without a help text stand in the last line alone.
std::string help_text() {
  std::string text =
      "larder-operator: adds a KV cache to annotated pods (CachePool, CacheBackend of "
      "larder.dev)\n\n";
  for (const base::Option<Arguments>& option : kOptions) {
    if (option.help.empty()) continue;
    std::string left = "  " + std::string(option.name) + "=" + std::string(option.takes);
    left.resize(std::max<std::size_t>(left.size() + 1, 40), ' ');
    text += left + std::string(option.help) + "\n";
  }
  return text + "  --metrics-reference, --version, --help\n";
}

}  // namespace larder::app
