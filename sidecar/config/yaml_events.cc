#include "sidecar/config/yaml_events.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

namespace larder::config {
namespace {

using Kind = YamlEvent::Kind;

// yaml-cpp counts lines from 0.
int line_of(const YAML::Mark& mark) {
  return mark.line + 1;
}

// Faults leave the parser as exceptions, which read_yaml_events() catches.
class Collector final : public YAML::EventHandler {
 public:
  explicit Collector(std::vector<YamlEvent>& events) : events_(events) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YamlFault{line_of(mark), "aliases (*name) are not allowed"};
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(Kind::kNull, mark, "", anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    add(Kind::kScalar, mark, tag, anchor);
    events_.back().text = value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    add(Kind::kListStart, mark, tag, anchor);
  }
  void OnSequenceEnd() override { events_.push_back({Kind::kListEnd}); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    add(Kind::kMapStart, mark, tag, anchor);
  }
  void OnMapEnd() override { events_.push_back({Kind::kMapEnd}); }

 private:
  void add(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) throw YamlFault{line_of(mark), "anchors (&name) are not allowed"};
    // yaml-cpp gives the tag "!" to quoted scalars and "?" to plain ones.
    const bool written = tag != "!" && tag != "?";
    events_.push_back({kind, line_of(mark), "", tag == "!", written ? tag : ""});
  }

  std::vector<YamlEvent>& events_;
};

// yaml-cpp reports a tab as "illegal map value"; this text names the tab.
std::string tab_hint(const std::string& text, int line) {
  std::istringstream lines(text);
  std::string found;
  for (int i = 0; i <= line; ++i) std::getline(lines, found);
  const std::size_t first = found.find_first_not_of(' ');
  return first != std::string::npos && found[first] == '\t'
             ? " (indent with spaces: YAML allows no tabs there)"
             : "";
}

}  // namespace

YamlDocument read_yaml_events(const std::string& text) {
  YamlDocument document;
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Collector collector(document.events);
    document.present = parser.HandleNextDocument(collector);
    // The second document is parsed to see whether it exists; its content is not used.
    std::vector<YamlEvent> unused;
    Collector second(unused);
    if (document.present && parser.HandleNextDocument(second))
      document.fault = {1, "a second document (---) is not allowed"};
  } catch (const YamlFault& fault) {
    document.fault = fault;
  } catch (const YAML::Exception& error) {
    document.fault = {line_of(error.mark),
                      "is no valid YAML: " + error.msg + tab_hint(text, error.mark.line)};
  }
  document.present = document.present || !document.events.empty() || document.fault.has_value();
  return document;
}

}  // namespace larder::config
