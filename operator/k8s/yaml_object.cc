#include "operator/k8s/yaml_object.h"

#include <charconv>
#include <vector>

#include "sidecar/config/yaml_events.h"

namespace larder::k8s {
namespace {

using config::YamlEvent;
using config::YamlFault;
using Kind = YamlEvent::Kind;

api::Object scalar_of(const YamlEvent& event) {
  const std::string& text = event.text;
  if (event.quoted) return text;  // "123" in quotes is a text
  if (text == "true" || text == "false") return text == "true";
  if (text == "null" || text == "~" || text.empty()) return nullptr;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Numbers as JSON has them: YAML would read 010 as 8.
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return text;
}

// A fault is thrown, and caught in this file.
class Builder {
 public:
  api::Object root;

  void on(const YamlEvent& event) {
    switch (event.kind) {
      case Kind::kNull: return put(event.line, nullptr);
      case Kind::kScalar: return on_scalar(event);
      case Kind::kListStart: return open(event.line, api::Object::array());
      case Kind::kMapStart: return open(event.line, api::Object::object());
      case Kind::kListEnd:
      case Kind::kMapEnd: return close();
    }
  }

 private:
  struct Open {
    api::Object value;
    std::string key = {};
    bool has_key = false;
  };

  void on_scalar(const YamlEvent& event) {
    if (!open_.empty() && open_.back().value.is_object() && !open_.back().has_key)
      return take_key(event.line, event.text);
    put(event.line, scalar_of(event));
  }

  // Of duplicate keys readers take different ones.
  void take_key(int line, const std::string& key) {
    if (open_.back().value.contains(key)) throw YamlFault{line, "'" + key + "' stands here twice"};
    open_.back().key = key;
    open_.back().has_key = true;
  }

  void open(int line, api::Object value) {
    // The same bound as for JSON: later code recurses over the values.
    if (open_.size() >= static_cast<std::size_t>(api::kMostDepth))
      throw YamlFault{line, "nested too deeply"};
    open_.push_back({std::move(value)});
  }

  void close() {
    api::Object value = std::move(open_.back().value);
    open_.pop_back();
    put(0, std::move(value));
  }

  void put(int line, api::Object value) {
    if (open_.empty()) {
      root = std::move(value);
      return;
    }
    Open& top = open_.back();
    if (top.value.is_array()) {
      top.value.push_back(std::move(value));
      return;
    }
    // A list or map as a key, as in `? [a, b] : c`, has no counterpart in JSON.
    if (!top.has_key) throw YamlFault{line, "a key is missing, or is no text"};
    top.value[top.key] = std::move(value);
    top.has_key = false;
  }

  std::vector<Open> open_;
};

}  // namespace

Result<api::Object> parse_yaml(const std::string& text) {
  const auto refuse = [](int line, const std::string& why) {
    return Status(Code::kInvalidArgument, "line " + std::to_string(line) + ": " + why);
  };
  const config::YamlDocument document = config::read_yaml_events(text);
  Builder builder;
  try {
    for (const YamlEvent& event : document.events) builder.on(event);
  } catch (const YamlFault& fault) {
    return refuse(fault.line, fault.why);
  }
  if (document.fault) return refuse(document.fault->line, document.fault->why);
  if (!document.present) return refuse(1, "the file is empty");
  return std::move(builder.root);
}

}  // namespace larder::k8s
