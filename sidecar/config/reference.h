// The configuration in words, for --help, --config-reference and --check-config. Pure; thread-safe.
#pragma once

#include <string>

#include "sidecar/config/config.h"

namespace larder::config {

// Every key with its variable, default and meaning.
std::string reference();

// docs/configuration.md: the same as a page in Markdown.
std::string reference_page();

// A configuration as the YAML that gives it.
std::string to_yaml(const Config& config);

}  // namespace larder::config
