// A YAML file as a flat list of keys and texts, read strictly: the only place that knows yaml-cpp.
//
// Refused by file and line: anything but maps of scalars, duplicate keys, anchors, aliases, tags, a key without a value, a second
// document, more than 64 KiB. Values stay texts: what they mean is the field's business. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "shim/protocol/status.h"

namespace larder::config {

struct YamlEntry {
  std::string key;  // "memory.size"
  std::string text;
  int line = 0;  // from 1
};

Result<std::vector<YamlEntry>> read_yaml_file(const std::string& file);
// `file` only names the text in errors.
Result<std::vector<YamlEntry>> parse_yaml(const std::string& text, const std::string& file);

}  // namespace larder::config
