// ConfigWatch: takes a changed configuration over into the larderd that runs, on SIGHUP or when its file changes.
//
// What is wrong with the new one is said in the log and as the fallback `config`, and nothing changes; so is what waits for a restart.
// Belongs to one thread.
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
  // The configuration file's bytes; none where there is no file or it cannot be read.
  static std::optional<std::string> content(const std::optional<std::string>& file, const config::Environment& environment);

  // `running`: what `sidecar` was started with, from `file` (none: $LARDER_CONFIG_FILE, if any) and `environment`. `seen`: the file's
  // content before it was read for that, so that what changed while larderd started is seen too. The sidecar outlives it.
  ConfigWatch(config::Config running, std::optional<std::string> file, config::Environment environment,
              std::optional<std::string> seen, loop::Sidecar& sidecar);

  // Reads it anew and takes over what changed.
  void reload();
  // The same if the file's content is another than at the last look, or could not be handed over then. A file that is gone for a moment
  // changes nothing.
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
