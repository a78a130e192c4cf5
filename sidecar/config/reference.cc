#include "sidecar/config/reference.h"

#include "sidecar/config/fields.h"
#include "sidecar/config/reload.h"

namespace larder::config {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

// A cell of a Markdown table, with bars escaped.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string code(const std::string& text) {
  return "`" + cell(text) + "`";
}

constexpr const char* kPageHead =
    "# Configuration of larderd\n\n"
    "Printed by `larderd --config-reference` from the table that larderd itself reads; a test compares this page with it.\n\n"
    "- Where values come from: defaults, then the file of `larderd --config FILE` (or `$LARDER_CONFIG_FILE`), then the "
    "environment. A\n"
    "  later one wins. Without any of them larderd starts with the defaults.\n"
    "- The file is YAML. A key with a dot stands in a section: `memory.size` is `size:` below `memory:`. An unknown key, a key "
    "given\n"
    "  twice, a size without a unit or a value out of range is an error that names file and line; larderd then does not start.\n"
    "- Units are powers of 1024: `5GiB`, `5Gi` and `5G` are the same. `5GB` is refused, since half the world means another "
    "number.\n"
    "- The file is read again on SIGHUP (`systemctl reload larderd`), and with `--watch-config` when it changes. A running "
    "larderd "
    "takes over\n"
    "  @LIVE@; what else changed is named in\n"
    "  the log and as the fallback `config` (`larderctl status`) until larderd is started anew, as is a file that is not valid.\n"
    "- `larderd --check-config` reads all of it, prints what is in force, and starts nothing.\n"
    "- The engine's side has its own few keys, in `kv_connector_extra_config`: see "
    "[shim/python](../../shim/python/README.md).\n\n"
    "| key | variable | default | meaning |\n"
    "|---|---|---|---|\n";

std::string page_head() {
  std::string head = kPageHead, keys;
  for (const std::string_view key : live_keys()) keys += (keys.empty() ? "" : ", ") + code(std::string(key));
  const std::string_view mark = "@LIVE@";
  return head.replace(head.find(mark), mark.size(), keys);
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

std::string reference_page() {
  const Config defaults;
  std::string text = page_head();
  for (const Field& field : fields()) {
    const std::string value = field.print(defaults);
    text += "| " + code(std::string(field.key)) + " | " + code(environment_name(field)) + " | " +
            (value.empty() ? "not set" : code(value)) + " | " + cell(field.help) + " |\n";
  }
  return text;
}

void YamlWriter::add(std::string_view key, std::string_view text) {
  const std::size_t dot = key.find('.');
  const std::string section(key.substr(0, dot == std::string_view::npos ? 0 : dot));
  if (section != section_ && !section.empty()) yaml_ += section + ":\n";
  section_ = section;
  const std::string_view name = section.empty() ? key : key.substr(dot + 1);
  yaml_ += (section.empty() ? "" : "  ") + std::string(name) + ": " + std::string(text) + "\n";
}

std::string to_yaml(const Config& config) {
  YamlWriter writer;
  for (const Field& field : fields()) writer.add(field.key, quoted(field.print(config)));
  return writer.yaml();
}

}  // namespace larder::config
