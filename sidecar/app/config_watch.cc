#include "sidecar/app/config_watch.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "sidecar/base/log.h"

namespace larder {
namespace {

// As long as an admin verb waits: a loop that does not answer in that time hangs.
constexpr std::uint32_t kLoopMs = 1000;  // deadline of the loop's answer
// The content is only compared. The loader has its own, smaller limit and reports a longer file.
constexpr std::streamsize kMostBytes = 1 << 20;

std::string listed(const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "" : ", ") + key;
  return text;
}

}  // namespace

std::optional<std::string> ConfigWatch::content(const std::optional<std::string>& file,
                                                const config::Environment& environment) {
  const std::optional<std::string> path = config::file_of(file, environment);
  if (!path) return std::nullopt;
  std::ifstream stream(*path);
  if (!stream) return std::nullopt;
  std::string text(static_cast<std::size_t>(kMostBytes), '\0');
  stream.read(text.data(), kMostBytes);
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

ConfigWatch::ConfigWatch(config::Config running, std::optional<std::string> file,
                         config::Environment environment, std::optional<std::string> seen,
                         loop::Sidecar& sidecar)
    : running_(std::move(running)),
      file_(std::move(file)),
      environment_(std::move(environment)),
      sidecar_(sidecar),
      seen_(std::move(seen)) {}

void ConfigWatch::reload() {
  // Before load(): a change in between differs from `seen_`, and the next look reads the file
  // again.
  seen_ = content(file_, environment_);
  const Result<config::Config> wanted = config::load(file_, environment_);
  if (!wanted.ok()) {
    const std::string why = "not taken over: " + wanted.status().text();
    base::log_error("config: " + why);
    // The running settings stay. The call only shows the reason as a fallback in /v1/status.
    if (const Status status = sidecar_.reconfigure(running_, why, kLoopMs); !status.ok())
      not_handed_over(status);
    return;
  }
  const config::Reload reload = config::reload(running_, *wanted);
  const std::string waiting =
      reload.waiting.empty() ? "" : "needs a restart of larderd: " + listed(reload.waiting);
  if (const Status status = sidecar_.reconfigure(reload.config, waiting, kLoopMs); !status.ok()) {
    not_handed_over(status);
    return;
  }
  // Only after the loop took the settings, so the next reload compares with the settings in force.
  running_ = reload.config;
  base::set_log_level(log_level_of(running_));
  base::log_info("config: read again; changed: " +
                 (reload.changed.empty() ? "nothing" : listed(reload.changed)));
  if (!waiting.empty()) base::log_warning("config: " + waiting);
}

// The loop was too busy to answer. Forgetting the content makes the next look at a watched file
// reload again.
void ConfigWatch::not_handed_over(const Status& status) {
  base::log_error("config: not taken over: " + status.text());
  seen_.reset();
}

void ConfigWatch::reload_if_changed() {
  const std::optional<std::string> now = content(file_, environment_);
  // A missing file is no change: Kubernetes exchanges a mounted ConfigMap by renaming links, and
  // editors replace files.
  if (now && now != seen_) reload();
}

base::LogLevel log_level_of(const config::Config& config) {
  if (config.log_level == "debug") return base::LogLevel::kDebug;
  if (config.log_level == "warning") return base::LogLevel::kWarning;
  if (config.log_level == "error") return base::LogLevel::kError;
  return base::LogLevel::kInfo;
}

}  // namespace larder
