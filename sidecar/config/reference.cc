#include "sidecar/config/reference.h"

#include "sidecar/config/fields.h"

namespace larder::config {
namespace {

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

}  // namespace

std::string reference() {
  const Config defaults;
  std::string text;
  for (const Field& field : fields()) {
    const std::string value = field.print(defaults);
    text += "  " + std::string(field.key) + "  (" + environment_name(field) + ", default " + (value.empty() ? "not set" : value) +
            ")\n";
    text += "      " + std::string(field.help) + "\n";
  }
  return text;
}

std::string to_yaml(const Config& config) {
  std::string text;
  std::string section;
  for (const Field& field : fields()) {
    const std::size_t dot = field.key.find('.');
    const std::string of(field.key.substr(0, dot == std::string_view::npos ? 0 : dot));
    if (of != section) text += of + ":\n";
    section = of;
    const std::string_view name = of.empty() ? field.key : field.key.substr(dot + 1);
    text += (of.empty() ? "" : "  ") + std::string(name) + ": " + quoted(field.print(config)) + "\n";
  }
  return text;
}

}  // namespace larder::config
