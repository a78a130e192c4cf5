// The command line of larderd. Pure; thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder {

struct Arguments {
  std::optional<std::string> config_file;
  std::vector<std::string> supervise;  // the addresses that answer probes
  // An inherited eventfd: the supervisor counts its dropped log lines there.
  std::optional<int> supervisor_drops;
  std::vector<std::string> of_child;  // the command line without --supervise
  bool watch_config = false, check_config = false, free_memory = false;
  bool config_reference = false, metrics_reference = false, version = false, help = false;
};

// `words`: without the name of the program. An error is a sentence that begins with the wrong word.
Result<Arguments> parse_arguments(std::span<const std::string_view> words);

}  // namespace larder
