// ConfigWatch: applies a changed configuration to the running larderd, on SIGHUP or when the file
// changes.
//
// A wrong configuration changes no setting: the log and the fallback `config` give the reason. Both
// also name the settings that need a restart. Owned by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sidecar/base/log.h"
#include "sidecar/config/loader.h"
#include "sidecar/config/reload.h"
#include "sidecar/loop/sidecar.h"

namespace larder {

class ConfigWatch {
 public:
  // The bytes of the configuration file. Empty if there is no file, or the file cannot be read.
  static std::optional<std::string> content(const std::optional<std::string>& file,
                                            const config::Environment& environment);

  // `running`: the configuration with which `sidecar` was started, from `file` (without a file:
  // $LARDER_CONFIG_FILE, if set) and `environment`. `seen`: the content of the file before that
  // load, so that a change during the start is noticed. The sidecar outlives this object.
  ConfigWatch(config::Config running, std::optional<std::string> file,
              config::Environment environment, std::optional<std::string> seen,
              loop::Sidecar& sidecar);

  // Loads the configuration again and applies the settings that changed.
  void reload();
  // The same, if the content differs from the last look or the last reload did not reach the loop.
  // A file that is missing for a moment changes no setting.
  void reload_if_changed();

 private:
  void not_handed_over(const Status& status);

  config::Config running_;
  const std::optional<std::string> file_;
  const config::Environment environment_;
  loop::Sidecar& sidecar_;
  std::optional<std::string> seen_;
};

base::LogLevel log_level_of(const config::Config& config);

}  // namespace larder
