#include "sidecar/config/reference.h"

#include "sidecar/config/fields.h"
#include "sidecar/config/reload.h"

namespace larder::config {
namespace {

// Always in quotes: other readers of YAML take a bare `none`, `0660` or `on` for other types.
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

// The page docs/reference/configuration.md is generated. A test compares both, so a new key cannot
// be left out of the page.
constexpr const char* kPageHead =
    "# Configuration of larderd\n\n"
    "`larderd --config-reference` prints this page from the table that larderd reads. A test "
    "compares page and table.\n\n"
    "- Sources of a value: the defaults, then the file of `larderd --config FILE` (or "
    "`$LARDER_CONFIG_FILE`), then the "
    "environment. A later source wins. Without a file and variables, larderd starts with the "
    "defaults.\n"
    "- The file is YAML. A key with a dot is in a section: `memory.size` is `size:` below "
    "`memory:`. An unknown key, a "
    "repeated key, a size without a unit or a value out of range is an error with file and line. "
    "larderd then does not "
    "start.\n"
    "- Units are powers of 1024: `5GiB`, `5Gi` and `5G` are equal. larderd refuses `5GB`, because "
    "many programs mean "
    "powers of 1000 by `GB`.\n"
    "- larderd reads the file again on SIGHUP (`systemctl reload larderd`), and with "
    "`--watch-config` after a change of "
    "the file. A running larderd applies these keys: "
    "@LIVE@. "
    "Every other changed key, and an invalid file, is in the log and in the fallback `config` "
    "(`larderctl status`) "
    "until a restart of larderd.\n"
    "- `larderd --check-config` reads all sources, prints the resulting values, and ends.\n"
    "- The engine has separate keys, in `kv_connector_extra_config`: see "
    "[shim/python](../../shim/python/README.md).\n\n"
    "| key | variable | default | meaning |\n"
    "|---|---|---|---|\n";

std::string page_head() {
  std::string head = kPageHead, keys;
  for (const std::string_view key : live_keys())
    keys += (keys.empty() ? "" : ", ") + code(std::string(key));
  const std::string_view mark = "@LIVE@";
  // From live_keys(), which reload() also uses: the page cannot promise another list.
  return head.replace(head.find(mark), mark.size(), keys);
}

}  // namespace

std::string reference() {
  // Values of a default-constructed Config, so the shown defaults are the real ones.
  const Config defaults;
  std::string text;
  for (const Field& field : fields()) {
    const std::string value = field.print(defaults);
    text += "  " + std::string(field.key) + "  (" + environment_name(field) + ", default " +
            (value.empty() ? "not set" : value) + ")\n";
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

// REQUIRES keys of one section in a row. A section that comes back would be a duplicate key in
// YAML.
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
