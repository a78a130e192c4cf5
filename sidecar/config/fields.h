// The table of all configuration keys. The YAML file, the environment, --help and --check-config
// all read this one table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shim/base/status.h"
#include "sidecar/config/config.h"

namespace larder::config {

struct Field {
  std::string_view key;  // "memory.size": the section, if any, and the name in the section
  std::string_view help;
  // Sets the value from its text. An error is a half sentence to follow the text: "has no unit:
  // ...".
  Status (*parse)(std::string_view text, Config& config);
  std::string (*print)(const Config& config);
  // Whether an error may repeat the text; false for a value that may hold a secret by mistake.
  bool quoted = true;
};

std::span<const Field> fields();

// nullptr if the key is unknown.
const Field* find_field(std::string_view key);

// "LARDER_MEMORY_SIZE" for "memory.size".
std::string environment_name(const Field& field);

}  // namespace larder::config
