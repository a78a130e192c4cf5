// The events of one YAML document, in order: the one reader over yaml-cpp.
//
// Events and no document tree: a caller checks each key with its line before it builds anything.
// Anchors, aliases and a second document are refused: aliases make a billion nodes of ten lines.
// Pure; thread-safe. The caller bounds the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder::config {

struct YamlEvent {
  // kNull: no value, as behind the colon of "key:".
  enum class Kind : std::uint8_t { kNull, kScalar, kListStart, kListEnd, kMapStart, kMapEnd };
  Kind kind = Kind::kNull;
  int line = 0;           // from 1; 0 at an end
  std::string text = {};  // of a scalar
  bool quoted = false;    // the scalar stands in quotes
  std::string tag = {};   // as written ("!!str"); mostly empty
};

struct YamlFault {
  int line = 0;
  std::string why;
};

struct YamlDocument {
  bool present = false;            // false: no text, or comments only
  std::vector<YamlEvent> events;   // those before the fault
  std::optional<YamlFault> fault;  // to report, if the events hold no other
};

YamlDocument read_yaml_events(const std::string& text);

}  // namespace larder::config
