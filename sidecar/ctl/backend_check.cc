#include "sidecar/ctl/backend_check.h"

#include <signal.h>

#include <thread>

#include "sidecar/backend_check/installation_diagnostics.h"
#include "sidecar/base/clock.h"
#include "sidecar/config/loader.h"
#include "sidecar/ctl/backend_report.h"

namespace larder::ctl {
namespace {

// Exit statuses for scripts: a warning is not a failure of the check.
constexpr int kExitWarnings = 1;

// The configuration from the URL and its options, or else the configuration of larderd.
Result<config::Config> configured(const Arguments& arguments) {
  if (arguments.words.size() < 3) {
    // An option beside a configuration file would silently win over the file.
    if (!arguments.backend.empty())
      return wrong("'" + arguments.backend.front().name +
                   "' goes with a URL; else the configuration says");
    Result<config::Config> config =
        config::load(arguments.config_file, config::process_environment());
    if (config.ok() && config->backend.url.empty())
      return wrong(
          "which backend? Name its URL, redis://host:6379, or --config FILE with backend.url");
    return config;
  }
  if (arguments.config_file) return wrong("a URL or --config FILE: one of the two");
  // The URL first: other keys are checked against its mode and TLS.
  std::vector<config::Value> values{{"backend.url", arguments.words[2], "the URL"}};
  values.insert(values.end(), arguments.backend.begin(), arguments.backend.end());
  return config::load(values);
}

int exit_status(std::span<const backend_check::Diagnostic> findings) {
  int status = 0;
  for (const backend_check::Diagnostic& finding : findings) {
    if (finding.weight == backend_check::Weight::kUnusable) return kExitUnusable;
    if (finding.weight == backend_check::Weight::kWarning) status = kExitWarnings;
  }
  return status;
}

}  // namespace

Result<Outcome> check_backend(const Arguments& arguments) {
  if (arguments.words[1] != "check")
    return wrong("'" + arguments.words[1] +
                 "' is not a command of backend: write backend check [URL]");
  const Result<config::Config> config = configured(arguments);
  if (!config.ok()) return config.status();
  if (!config->backend.plugin.empty())
    return wrong(
        config->backend.plugin +
        ":// is a service behind a plug-in: `larderctl status` shows what the plug-in says");
  ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes with write(), and the server may be gone
  const backend_check::InstallationFacts facts = backend_check::check_installation(
      remote::options_of(config->backend), base::MonotonicClock());
  const std::vector<backend_check::Diagnostic> findings =
      // The processors of this machine count only for a server on this machine.
      backend_check::findings_of(config->backend, facts, std::thread::hardware_concurrency());
  // Findings are judged here and not in the report, so that both forms and the exit status agree.
  return Outcome{arguments.json ? backend_json(config->backend, facts, findings)
                                : backend_screen(config->backend, facts, findings),
                 exit_status(findings)};
}

}  // namespace larder::ctl
