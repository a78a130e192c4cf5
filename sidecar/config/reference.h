// The configuration in words, for --help, --config-reference and --check-config. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "sidecar/config/config.h"

namespace larder::config {

// Every key with its variable, default and meaning.
std::string reference();

// docs/reference/configuration.md: the same as a page in Markdown.
std::string reference_page();

// Keys and their texts as YAML, one after the other: a key of another section than the one before it opens that section.
class YamlWriter {
 public:
  void add(std::string_view key, std::string_view text);
  const std::string& yaml() const { return yaml_; }

 private:
  std::string yaml_;
  std::string section_;  // that is open; "" for the top
};

// A configuration as the YAML that gives it.
std::string to_yaml(const Config& config);

}  // namespace larder::config
