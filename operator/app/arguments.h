// What the words of larder-operator's command line mean. Pure; thread-safe.
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
  std::string ns;                               // of the operator itself: its lease, Service and Secret
  std::string image;                            // of larderd and the payload in pods
  std::string image_registry;                   // in place of the host of other images that the operator names; empty: theirs
  std::vector<std::string> image_pull_secrets;  // by which pods pull it
  std::string kubeconfig;                       // empty: the pod's service account
  bool leader_elect = true;
  std::string lease_name = "larder-operator";
  std::string identity;  // of this replica, for people; empty: the host's name
  std::string metrics_address = ":8080";
  std::string health_address = ":8081";
  std::string webhook_address = ":9443";
  std::string webhook_service = "larder-webhook";
  std::string webhook_configuration = "larder";
  std::string certificate_secret = "larder-webhook-tls";
  std::string certificate_directory;  // empty: the certificate is our own, in certificate_secret
  base::LogLevel log_level = base::LogLevel::kInfo;
  bool help = false, version = false, metrics_reference = false;
};

// `--name=value` or `--name value`; POD_NAMESPACE and POD_NAME of `environment` where a flag is not given. An error is a sentence that
// begins with the wrong word.
Result<Arguments> parse_arguments(std::span<const std::string_view> words, const std::map<std::string, std::string>& environment);

std::string help_text();

}  // namespace larder::app
