// The command line of larder-operator. Pure; thread-safe.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/base/log.h"

namespace larder::app {

struct Arguments {
  std::string ns;                                 // namespace of the lease, Service and Secret
  std::string image;                              // image of larderd and of the payload in pods
  std::string mooncake_image, infinistore_image;  // of the plug-ins; empty: none
  std::string image_registry;                     // replaces the host of other images; empty: none
  std::vector<std::string> image_pull_secrets;    // for `image`
  std::string kubeconfig;                         // empty: the service account of the pod
  bool leader_elect = true;
  std::string lease_name = "larder-operator";
  std::string identity;  // name of this replica for readers of logs; empty: the host name
  std::string metrics_address = ":8080";
  std::string health_address = ":8081";
  std::string webhook_address = ":9443";
  std::string webhook_service = "larder-webhook";
  std::string webhook_configuration = "larder";
  std::string certificate_secret = "larder-webhook-tls";
  // A folder with a certificate of cert-manager. The leader then makes no certificate and does not
  // write the caBundle. Empty: the operator's certificate in certificate_secret.
  std::string certificate_directory;
  base::LogLevel log_level = base::LogLevel::kInfo;
  bool help = false, version = false, metrics_reference = false;
};

// Takes `--name=value` and `--name value`. POD_NAMESPACE and POD_NAME of `environment` are defaults
// of flags. An error is a sentence that begins with the wrong word.
Result<Arguments> parse_arguments(std::span<const std::string_view> words,
                                  const std::map<std::string, std::string>& environment);

std::string help_text();

}  // namespace larder::app
