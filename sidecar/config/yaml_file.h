// A strict parser of a YAML file into a flat list of keys and texts.
//
// The parser accepts maps of scalars. Refused with file and line: lists, duplicate keys, anchors,
// aliases, tags, a key without a value, a section without keys, a second document, more than 64
// KiB. Values stay texts; the field interprets the text. Thread-safe.
//
// A foreign file (of another product, to import) may also hold lists, deeper maps, keys without a
// value and keys with dots.
#pragma once

#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::config {

struct YamlEntry {
  std::string key;  // "memory.size"
  std::string text;
  int line = 0;          // from 1
  int section_line = 0;  // the first line of the section; 0 at the top
};

enum class YamlForm {
  kOwn,
  // A key without a value has the text "null"; a list, or a map inside a section,
  // is one text: "[1, 2]", "{a, b}".
  kForeign,
};

Result<std::vector<YamlEntry>> read_yaml_file(const std::string& file,
                                              YamlForm form = YamlForm::kOwn);
// `file`: the name of the text in errors.
Result<std::vector<YamlEntry>> parse_yaml(const std::string& text, const std::string& file,
                                          YamlForm form = YamlForm::kOwn);

}  // namespace larder::config
