#include "operator/k8s/yaml_object.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <sstream>
#include <vector>

namespace larder::k8s {
namespace {

// Leaves the parser from inside an event; never leaves this file.
struct Refused {
  int line;
  std::string why;
};

api::Object scalar_of(const std::string& tag, const std::string& text) {
  // yaml-cpp gives the tag "!" to quoted scalars and "?" to plain ones. "123" in quotes is a text.
  if (tag == "!") return text;  // quoted
  if (text == "true" || text == "false") return text == "true";
  if (text == "null" || text == "~" || text.empty()) return nullptr;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Numbers as JSON has them: yaml-cpp would read 010 as 8.
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return text;
}

class Builder final : public YAML::EventHandler {
 public:
  api::Object root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  // Aliases can make a billion nodes of ten lines ("billion laughs").
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused{mark.line + 1, "aliases (*name) are not allowed"};
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { put(mark, nullptr); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, anchor);
    if (!open_.empty() && open_.back().value.is_object() && !open_.back().has_key)
      return take_key(mark, value);
    put(mark, scalar_of(tag, value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, api::Object::array());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, api::Object::object());
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    api::Object value;
    std::string key = {};
    bool has_key = false;
  };

  static void check(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) throw Refused{mark.line + 1, "anchors (&name) are not allowed"};
  }

  // yaml-cpp takes duplicate keys silently, and readers differ in the one that wins.
  void take_key(const YAML::Mark& mark, const std::string& key) {
    if (open_.back().value.contains(key))
      throw Refused{mark.line + 1, "'" + key + "' stands here twice"};
    open_.back().key = key;
    open_.back().has_key = true;
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, api::Object value) {
    check(mark, anchor);
    // The same bound as for JSON: later code recurses over the values.
    if (open_.size() >= static_cast<std::size_t>(api::kMostDepth))
      throw Refused{mark.line + 1, "nested too deeply"};
    open_.push_back({std::move(value)});
  }

  void close() {
    api::Object value = std::move(open_.back().value);
    open_.pop_back();
    put({}, std::move(value));
  }

  void put(const YAML::Mark& mark, api::Object value) {
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
    if (!top.has_key) throw Refused{mark.line + 1, "a key is missing, or is no text"};
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
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Builder builder;
    if (!parser.HandleNextDocument(builder)) return refuse(1, "the file is empty");
    // A second document would otherwise be ignored without a word.
    Builder second;
    if (parser.HandleNextDocument(second))
      return refuse(1, "a second document (---) is not allowed");
    return std::move(builder.root);
  } catch (const Refused& refused) {
    return refuse(refused.line, refused.why);
  } catch (const YAML::Exception& error) {
    return refuse(error.mark.line + 1, "no valid YAML: " + error.msg);
  }
}

}  // namespace larder::k8s
