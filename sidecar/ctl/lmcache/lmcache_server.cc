#include "sidecar/ctl/lmcache/lmcache_server.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "sidecar/config/yaml_file.h"
#include "sidecar/ctl/lmcache/lmcache_values.h"

namespace larder::ctl {
namespace {

using config::YamlEntry;
using Settings = std::vector<LmcacheSetting>;

constexpr std::string_view kAdapter = "--l2-adapter";

struct Renamed {
  std::string_view theirs, key;
};
// Options with a key in LMCache's file.
constexpr Renamed kOptions[] = {{"--l1-size-gb", "max_local_cpu_size"},
                                {"--l1-use-hugepages", "local_cpu_use_hugepages"},
                                {"--chunk-size", "chunk_size"}};
// Fields of an adapter with a key in LMCache's file.
// The native RESP client reads the same four values from LMCACHE_RESP_* variables.
constexpr Renamed kResp[] = {{"host", "resp_host"},
                             {"port", "resp_port"},
                             {"username", "resp_username"},
                             {"password", "resp_password"}};
constexpr Renamed kValkey[] = {{"username", "extra_config.valkey_username"},
                               {"password", "extra_config.valkey_password"},
                               {"database_id", "extra_config.valkey_database"},
                               {"tls_enable", "extra_config.tls_enable"}};

std::string_view renamed(std::span<const Renamed> table, std::string_view theirs) {
  const auto found = std::ranges::find(table, theirs, &Renamed::theirs);
  return found == table.end() ? std::string_view() : found->key;
}

// The last of two equal settings wins, as on the command line of LMCache.
void put_option(Settings& settings, LmcacheSetting setting) {
  // Each adapter without a counterpart gets its own remark.
  if (setting.key != kAdapter)
    std::erase_if(settings,
                  [&](const LmcacheSetting& earlier) { return earlier.key == setting.key; });
  settings.push_back(std::move(setting));
}

class Adapters {
 public:
  explicit Adapters(Settings& settings, const std::map<std::string, std::string>& environment)
      : settings_(settings), environment_(environment) {}

  Status take(const std::string& json) {
    const Result<std::vector<YamlEntry>> entries =
        // JSON is valid YAML, so the strict parser of larderd's file serves here, too.
        config::parse_yaml(json, std::string(kAdapter), config::YamlForm::kForeign);
    if (!entries.ok()) return entries.status();
    fields_.clear();
    for (const YamlEntry& entry : *entries) fields_[entry.key] = entry.text;
    const std::string type = taken("type");
    if (type.empty())
      return {Code::kInvalidArgument, std::string(kAdapter) + ": an adapter needs a \"type\""};
    const bool file = type == "fs" || type == "fs_native";
    if (!file && type != "resp" && type != "valkey") return leave(type);
    // larderd has one disk and one backend; LMCache may have several of each.
    if (std::exchange(file ? disk_ : backend_, true))
      return leave("a second disk or backend: " + type);
    if (file) file_system();
    if (type == "resp") resp();
    if (type == "valkey") valkey();
    // A map inside the adapter, "eviction.eviction_policy", counts under the name of the map.
    for (const auto& [field, text] : fields_)
      add(std::string(kAdapter) + "." + field.substr(0, field.find('.')), text);
    return {};
  }

 private:
  // Removes and returns a field; "" if the adapter does not have the field.
  std::string taken(const std::string& field) {
    auto found = fields_.extract(field);
    return found.empty() || is_nothing(found.mapped()) ? "" : std::move(found.mapped());
  }
  void add(const std::string& key, std::string text) {
    put_option(settings_, {key, std::move(text), std::string(kAdapter)});
  }
  void rename(std::span<const Renamed> table) {
    for (const auto& [theirs, key] : table)
      if (std::string text = taken(std::string(theirs)); !text.empty())
        add(std::string(key), std::move(text));
  }
  Status leave(const std::string& type) {
    add(std::string(kAdapter), type);
    return {};
  }
  // Files without a bound, unless the adapter has a capacity.
  void file_system() {
    const std::string path = taken("base_path"), capacity = taken("max_capacity_gb");
    const bool bounded = !capacity.empty() && capacity.find_first_not_of("0.") != std::string::npos;
    // With a capacity the adapter is LMCache's disk tier under another name.
    add(bounded ? "local_disk" : std::string(kAdapter) + ".base_path", path);
    if (bounded) add("max_local_disk_size", capacity);
  }
  void resp() {
    for (const auto& [field, key] : kResp) {
      std::string variable = "LMCACHE_" + std::string(key);
      std::ranges::transform(variable, variable.begin(),
                             [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      // First the variables, then the fields of the adapter, which win.
      const auto said = environment_.find(variable);
      if (said != environment_.end())
        put_option(settings_, {std::string(key), said->second, variable});
    }
    rename(kResp);
  }
  // Without cluster_mode only the first node counts.
  void valkey() {
    std::string nodes = taken("startup_nodes");
    const bool cluster = base::lower(taken("cluster_mode")) == "true";
    if (!cluster) nodes = nodes.substr(0, nodes.find(','));
    add("remote_url", "valkey://" + nodes);
    if (cluster) add("extra_config.valkey_mode", "cluster");
    rename(kValkey);
  }

  Settings& settings_;
  const std::map<std::string, std::string>& environment_;
  std::map<std::string, std::string> fields_;  // remaining fields of the current adapter
  bool disk_ = false, backend_ = false;        // an earlier adapter is a disk, a backend
};

bool is_option(const std::string& word) {
  return word.starts_with("--");
}

}  // namespace

Result<Settings> read_lmcache_server(std::span<const std::string> words,
                                     const std::map<std::string, std::string>& environment) {
  Settings settings;
  Adapters adapters(settings, environment);
  // Words before the first option are the program: "lmcache server", or a path of Python.
  auto next = std::ranges::find_if(words, is_option);
  while (next != words.end()) {
    const std::size_t equals = next->find('=');
    const std::string option = next->substr(0, equals);
    std::string text = equals == std::string::npos ? "" : next->substr(equals + 1);
    // Some options take several words.
    for (++next; next != words.end() && !is_option(*next); ++next)
      text += (text.empty() ? "" : " ") + *next;
    if (option == kAdapter) {
      if (Status status = adapters.take(text); !status.ok()) return status;
      continue;
    }
    const std::string_view key = renamed(kOptions, option);
    // A flag without a value means "true".
    put_option(settings,
               {key.empty() ? option : std::string(key), text.empty() ? "true" : std::move(text),
                key.empty() ? "command line" : option});
  }
  return settings;
}

}  // namespace larder::ctl
