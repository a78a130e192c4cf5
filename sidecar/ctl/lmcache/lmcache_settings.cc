#include "sidecar/ctl/lmcache/lmcache_settings.h"

#include "sidecar/base/text.h"
#include "sidecar/config/yaml_file.h"

namespace larder::ctl {
namespace {

using config::YamlEntry;
using config::YamlForm;
using Settings = std::vector<LmcacheSetting>;

constexpr std::string_view kPrefix = "LMCACHE_";
constexpr std::string_view kFileVariable = "LMCACHE_CONFIG_FILE";
constexpr std::string_view kDictionary = "extra_config";

// LMCache removes one pair of quotes around the value of a variable.
std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                      (text.front() == '"' || text.front() == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

void put(Settings& settings, LmcacheSetting setting) {
  // The last one wins: variables come after the file.
  std::erase_if(settings,
                [&setting](const LmcacheSetting& earlier) { return earlier.key == setting.key; });
  settings.push_back(std::move(setting));
}

Status add_file(const std::string& file, Settings& settings) {
  // kForeign: lists and deeper maps are allowed and become one text each.
  const Result<std::vector<YamlEntry>> entries = config::read_yaml_file(file, YamlForm::kForeign);
  if (!entries.ok()) return entries.status();
  for (const YamlEntry& entry : *entries)
    put(settings, {entry.key, entry.text, file + ":" + std::to_string(entry.line)});
  return {};
}

// LMCACHE_EXTRA_CONFIG holds a map, {"key": value}, which is valid YAML. It replaces the whole map
// of the file.
Status add_dictionary(const std::string& name, std::string_view text, Settings& settings) {
  const Result<std::vector<YamlEntry>> entries =
      config::parse_yaml(std::string(text), name, YamlForm::kForeign);
  if (!entries.ok()) return entries.status();
  const std::string section = std::string(kDictionary) + ".";
  std::erase_if(settings, [&section](const LmcacheSetting& setting) {
    return setting.key.starts_with(section);
  });
  for (const YamlEntry& entry : *entries) put(settings, {section + entry.key, entry.text, name});
  return {};
}

}  // namespace

Result<Settings> read_lmcache_settings(const std::optional<std::string>& file,
                                       const std::map<std::string, std::string>& environment) {
  Settings settings;
  const auto named = environment.find(std::string(kFileVariable));
  // An explicit file replaces the file of the variable, as with larderd's --config.
  if (file || named != environment.end())
    if (Status status = add_file(file ? *file : named->second, settings); !status.ok())
      return status;
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(kPrefix) || name == kFileVariable) continue;
    // LMCACHE_CHUNK_SIZE is chunk_size: LMCache derives the variable from the key.
    const std::string key = base::lower(name.substr(kPrefix.size()));
    if (key != kDictionary)
      put(settings, {key, std::string(unquoted(value)), name});
    else if (Status status = add_dictionary(name, unquoted(value), settings); !status.ok())
      return status;
  }
  return settings;
}

}  // namespace larder::ctl
