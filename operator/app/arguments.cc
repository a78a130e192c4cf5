#include "operator/app/arguments.h"

#include <algorithm>
#include <array>
#include <optional>

namespace larder::app {
namespace {

Status wrong(std::string_view word, const std::string& why) {
  return {Code::kInvalidArgument, "'" + std::string(word) + "' " + why};
}

struct Flag {
  std::string_view name;
  std::string Arguments::*field;  // null: `set` stores the value
  bool (*set)(Arguments& arguments, std::string_view value);
  std::string_view takes, what;
};

bool set_leader_elect(Arguments& arguments, std::string_view value) {
  arguments.leader_elect = value != "false";
  return value == "true" || value == "false";
}

bool set_log_level(Arguments& arguments, std::string_view value) {
  constexpr std::array<std::string_view, 4> kLevels{"debug", "info", "warning", "error"};
  const auto* found = std::ranges::find(kLevels, value);
  if (found == kLevels.end()) return false;
  arguments.log_level = static_cast<base::LogLevel>(found - kLevels.begin());
  return true;
}

bool set_pull_secrets(Arguments& arguments, std::string_view value) {
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find(',', at), value.size());
    if (end == at) return false;
    arguments.image_pull_secrets.emplace_back(value.substr(at, end - at));
    at = end + 1;
  }
  return true;
}

constexpr std::array<Flag, 16> kFlags{{
    {"--namespace", &Arguments::ns, nullptr, "NAME",
     "the operator's own namespace: lease, Service and certificate [POD_NAMESPACE]"},
    {"--image", &Arguments::image, nullptr, "IMAGE", "of larderd and the payload in pods"},
    {"--image-registry", &Arguments::image_registry, nullptr, "HOST[:PORT][/PATH]",
     "in place of the host of managed servers' images, and for images that pools and backends name without a host"},
    {"--image-pull-secrets", nullptr, set_pull_secrets, "NAME,...", "Secrets of pods' own namespaces by which they pull it"},
    {"--kubeconfig", &Arguments::kubeconfig, nullptr, "FILE",
     "how to reach the API server; without it, the pod's service account"},
    {"--leader-elect", nullptr, set_leader_elect, "true|false", "false: this process alone writes, without a lease (true)"},
    {"--lease-name", &Arguments::lease_name, nullptr, "NAME", "of the Lease by which one replica leads (larder-operator)"},
    {"--identity", &Arguments::identity, nullptr, "NAME", "of this replica, in lease and events [POD_NAME]"},
    {"--metrics-address", &Arguments::metrics_address, nullptr, "HOST:PORT", "/metrics (:8080)"},
    {"--health-address", &Arguments::health_address, nullptr, "HOST:PORT", "/healthz and /readyz (:8081)"},
    {"--webhook-address", &Arguments::webhook_address, nullptr, "HOST:PORT", "/mutate-v1-pod, over TLS (:9443)"},
    {"--webhook-service", &Arguments::webhook_service, nullptr, "NAME",
     "its Service, which the certificate names (larder-webhook)"},
    {"--webhook-configuration", &Arguments::webhook_configuration, nullptr, "NAME",
     "the MutatingWebhookConfiguration whose caBundle is kept right (larder)"},
    {"--certificate-secret", &Arguments::certificate_secret, nullptr, "NAME",
     "Secret for the certificates that the operator makes itself (larder-webhook-tls)"},
    {"--certificate-directory", &Arguments::certificate_directory, nullptr, "DIR",
     "tls.crt and tls.key of cert-manager; the operator then makes none and leaves the caBundle alone"},
    {"--log-level", nullptr, set_log_level, "LEVEL", "debug, info, warning, error (info)"},
}};

std::string of(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Status take(Arguments& arguments, std::string_view word, std::string_view name, std::optional<std::string_view> value) {
  const auto* flag = std::ranges::find(kFlags, name, &Flag::name);
  if (flag == kFlags.end()) return wrong(word, "is no flag of larder-operator (see --help)");
  if (!value || value->empty()) return wrong(word, "needs " + std::string(flag->takes));
  if (flag->field != nullptr)
    arguments.*(flag->field) = *value;
  else if (!flag->set(arguments, *value))
    return wrong(word, "takes " + std::string(flag->takes) + ", not '" + std::string(*value) + "'");
  return {};
}

}  // namespace

Result<Arguments> parse_arguments(std::span<const std::string_view> words,
                                  const std::map<std::string, std::string>& environment) {
  Arguments arguments;
  arguments.ns = of(environment, "POD_NAMESPACE");
  arguments.identity = of(environment, "POD_NAME");
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--help" || word == "--version" || word == "--metrics-reference") {
      (word == "--help" ? arguments.help : word == "--version" ? arguments.version : arguments.metrics_reference) = true;
      continue;
    }
    const std::size_t equal = word.find('=');
    std::optional<std::string_view> value;
    if (equal != std::string_view::npos)
      value = word.substr(equal + 1);
    else if (i + 1 < words.size() && !words[i + 1].starts_with("--"))
      value = words[++i];
    if (Status status = take(arguments, word, word.substr(0, equal), value); !status.ok()) return status;
  }
  if (arguments.help || arguments.version || arguments.metrics_reference) return arguments;
  if (arguments.ns.empty()) return Status(Code::kInvalidArgument, "--namespace is missing, and POD_NAMESPACE is not set");
  if (arguments.image.empty())
    return Status(Code::kInvalidArgument, "--image is missing: the image that pods get larderd and its payload from");
  return arguments;
}

std::string help_text() {
  std::string text = "larder-operator: gives annotated pods a cache (CachePool, CacheBackend of larder.dev)\n\n";
  for (const Flag& flag : kFlags) {
    std::string left = "  " + std::string(flag.name) + "=" + std::string(flag.takes);
    left.resize(std::max<std::size_t>(left.size() + 1, 40), ' ');
    text += left + std::string(flag.what) + "\n";
  }
  return text + "  --metrics-reference, --version, --help\n";
}

}  // namespace larder::app
