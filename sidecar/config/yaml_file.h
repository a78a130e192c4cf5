// A YAML file as a flat list of keys and texts, read strictly: the only place that knows yaml-cpp.
//
// Refused by file and line: anything but maps of scalars, duplicate keys, anchors, aliases, tags, a key without a value, a section
// without keys, a second document, more than 64 KiB. Values stay texts: what they mean is the field's business. Thread-safe.
//
// A foreign file (another product's, to be imported) may also hold lists, deeper maps, keys without a value and keys with dots.
#pragma once

#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::config {

struct YamlEntry {
  std::string key;  // "memory.size"
  std::string text;
  int line = 0;          // from 1
  int section_line = 0;  // where its section begins; 0 outside of one
};

enum class YamlForm {
  kOwn,
  kForeign,  // a key without a value has the text "null"; a list, or a map inside a section, is one text: "[1, 2]", "{a, b}"
};

Result<std::vector<YamlEntry>> read_yaml_file(const std::string& file, YamlForm form = YamlForm::kOwn);
// `file` only names the text in errors.
Result<std::vector<YamlEntry>> parse_yaml(const std::string& text, const std::string& file, YamlForm form = YamlForm::kOwn);

}  // namespace larder::config
