// The configuration in words, for --help, --config-reference and --check-config. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "sidecar/config/config.h"

namespace larder::config {

// All keys, each with variable, default and meaning.
std::string reference();

// docs/reference/configuration.md: the same as a page in Markdown.
std::string reference_page();

// Writes keys and texts as YAML, in the order of the calls. A key of another section opens that
// section.
class YamlWriter {
 public:
  void add(std::string_view key, std::string_view text);
  const std::string& yaml() const { return yaml_; }

 private:
  std::string yaml_;
  std::string section_;  // the open section; "" for the top
};

// The YAML file that loads as `config`.
std::string to_yaml(const Config& config);

}  // namespace larder::config
