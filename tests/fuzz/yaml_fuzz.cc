// The YAML configuration: arbitrary text through parser, fields and loader's rules.
//
// Promises: a refusal names file and reason; an accepted text, printed as YAML, is accepted again
// and means the same.
#include <optional>

#include "sidecar/config/fields.h"
#include "sidecar/config/reference.h"
#include "sidecar/config/yaml_file.h"
#include "tests/fuzz/input.h"

namespace {

using namespace larder;
using namespace larder::fuzz;

// The content of the file by the loader; empty after a refusal.
std::optional<config::Config> taken(const std::string& text) {
  const auto entries = config::parse_yaml(text, "FILE");
  if (!entries.ok()) {
    must(entries.status().text().starts_with("FILE:"), "a refusal names file and line");
    must(entries.status().text().size() > 8, "a refusal says why");
    return std::nullopt;
  }
  config::Config config;
  for (const config::YamlEntry& entry : *entries) {
    must(entry.line >= 1, "an entry stands on a line");
    const config::Field* field = config::find_field(entry.key);
    if (field == nullptr) return std::nullopt;
    const Status status = field->parse(entry.text, config);
    if (status.ok()) continue;
    must(!status.text().empty(), "a refused value says why");
    return std::nullopt;
  }
  return config;
}

// Another product's file, which may hold more (larderctl import-lmcache).
void check_foreign(const std::string& text) {
  const auto entries = config::parse_yaml(text, "FILE", config::YamlForm::kForeign);
  if (!entries.ok())
    return must(entries.status().text().starts_with("FILE:"), "a refusal names file and line");
  for (const config::YamlEntry& entry : *entries)
    must(!entry.key.empty() && entry.line >= 1, "an entry has a key and stands on a line");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = Input(data, size).rest();
  check_foreign(text);
  auto config = taken(text);
  if (!config) return 0;
  if (config->http.admin_socket.empty())
    // the loader sets the field, --check-config never sees an empty one
    config->http.admin_socket = "/admin";
  const auto again = taken(config::to_yaml(*config));
  must(again.has_value(), "the output of --check-config is accepted");
  for (const config::Field& field : config::fields())
    must(field.print(*config) == field.print(*again),
         "the output of --check-config means the same");
  return 0;
}
