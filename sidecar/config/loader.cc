#include "sidecar/config/loader.h"

#include <unistd.h>

#include <array>
#include <map>
#include <set>
#include <span>

#include "sidecar/config/fields.h"
#include "sidecar/config/values.h"
#include "sidecar/config/yaml_file.h"

namespace larder::config {
namespace {

using Names = std::set<std::string, std::less<>>;
using Given = std::map<std::string, std::string,
                       // By key, the place where the user set the key: "larder.yaml:7: ".
                       std::less<>>;

std::string section_of(std::string_view key) {
  const std::size_t dot = key.find('.');
  return dot == std::string_view::npos ? "" : std::string(key.substr(0, dot));
}

// The allowed names in a section: keys, and for the top ("") also sections.
// From the table of fields, so that an error never lists a key that larderd does not know.
std::string allowed_in(const std::string& section) {
  std::set<std::string> sections;
  std::string names;
  const auto add = [&names](std::string_view name) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  };
  for (const Field& field : fields()) {
    const std::string of = section_of(field.key);
    if (of == section)
      add(section.empty() ? field.key : field.key.substr(section.size() + 1));
    else if (section.empty() && sections.insert(of).second)
      add(of);
  }
  return names;
}

// Four different slips have four different remedies: a value written as a section, an unknown
// section, a section as a value, an unknown key.
Status unknown_key(const std::string& file, const YamlEntry& entry) {
  const std::string& key = entry.key;
  const std::string section = section_of(key);
  // The line of the section is the useful one: all keys below are fine once the section is right.
  const bool wrong_section = !section.empty() && allowed_in(section).empty();
  const std::string where =
      file + ":" + std::to_string(wrong_section ? entry.section_line : entry.line) + ": ";
  if (wrong_section && find_field(section) != nullptr)
    return {Code::kInvalidArgument, where + "'" + section + "' takes one value and is no section"};
  if (wrong_section)
    return {Code::kInvalidArgument,
            where + "unknown section '" + section + "'; allowed: " + allowed_in("")};
  if (!allowed_in(key).empty())
    return {Code::kInvalidArgument, where + "'" + key + "' is a section: " + allowed_in(key)};
  const std::string in = section.empty() ? "" : " in section '" + section + "'";
  return {Code::kInvalidArgument,
          where + "unknown key '" + key + "'; allowed" + in + ": " + allowed_in(section)};
}

// `name`: the key or the variable that the user set at `where`.
// The place is remembered, for errors that concern two keys (complete()).
Status apply(const Field& field, const std::string& where, const std::string& name,
             const std::string& text, Config& config, Given& given) {
  if (Status status = field.parse(text, config); !status.ok())
    return {status.code(),
            // A field that may hold a secret by mistake (backend.url) is named, and its text is
            // left out.
            // Every error names the file and line, or the variable, and the allowed values.
            where + name + (field.quoted ? " '" + text + "' " : " ") + status.text()};
  given.insert_or_assign(std::string(field.key), where);
  return {};
}

Status apply_file(const std::string& file, Config& config, Given& given) {
  const Result<std::vector<YamlEntry>> entries = read_yaml_file(file);
  if (!entries.ok()) return entries.status();
  for (const YamlEntry& entry : *entries) {
    const Field* field = find_field(entry.key);
    if (field == nullptr) return unknown_key(file, entry);
    const std::string where = file + ":" + std::to_string(entry.line) + ": ";
    if (Status status = apply(*field, where, entry.key, entry.text, config, given); !status.ok())
      return status;
  }
  return {};
}

// Kubernetes sets NAME_SERVICE_HOST, NAME_PORT=tcp://... and the like for every Service, for
// example for a Service called larder-http.
bool set_by_kubernetes(const std::string& name, const std::string& value) {
  return name.find("_SERVICE_") != std::string::npos || name.find("_PORT_") != std::string::npos ||
         value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
}

// Variables of the engine's side, the loader, benchmarks and tests.
// A warning about these names would send users after variables that work.
bool read_by_others(const std::string& name) {
  return name == "LARDER_CONFIG_FILE" || name == "LARDER_LIBRARY" || name == "LARDER_CACHE" ||
         name.starts_with("LARDER_TEST_") || name.starts_with("LARDER_BENCH_");
}

// A variable with such a name can only be for larderd, so a misspelt one is an error. LARDER_SOCKTE
// could be of another program.
bool in_section(const std::string& name) {
  return name.starts_with("LARDER_MEMORY_") || name.starts_with("LARDER_DISK_") ||
         name.starts_with("LARDER_BACKEND_") || name.starts_with("LARDER_PEERS_") ||
         name.starts_with("LARDER_HTTP_");
}

Names known_variables() {
  Names known;
  for (const Field& field : fields()) known.insert(environment_name(field));
  return known;
}

// A misspelt variable of a section (LARDER_MEMORY_..., LARDER_DISK_..., LARDER_BACKEND_...,
// LARDER_PEERS_..., LARDER_HTTP_...) is an error.
// unknown_variables() lists other misspelt variables for a warning.
Status check_names(const Environment& environment) {
  const Names known = known_variables();
  for (const auto& [name, value] : environment) {
    if (!in_section(name) || known.contains(name) || set_by_kubernetes(name, value)) continue;
    std::string allowed;
    for (const std::string& one : known) allowed += (allowed.empty() ? "" : ", ") + one;
    return {Code::kInvalidArgument,
            "environment: unknown variable " + name + "; allowed: " + allowed};
  }
  return {};
}

Status apply_environment(const Environment& environment, Config& config, Given& given) {
  if (Status status = check_names(environment); !status.ok()) return status;
  for (const Field& field : fields()) {
    const std::string name = environment_name(field);
    const auto found = environment.find(name);
    if (found == environment.end()) continue;
    if (Status status = apply(field, "environment: ", name, found->second, config, given);
        !status.ok())
      return status;
  }
  return {};
}

// The path of `socket` with another suffix.
std::string beside_socket(const Config& config, std::string_view suffix) {
  const std::string_view own = ".sock", path = config.socket;
  return std::string(path.ends_with(own) ? path.substr(0, path.size() - own.size()) : path) +
         std::string(suffix);
}

Status check_plugin_socket(const Config& config) {
  const std::string& path = config.backend.plugin_socket;
  if (path.empty()) return {};
  if (path == config.socket || path == config.http.admin_socket)
    return {Code::kInvalidArgument,
            "backend.plugin_socket is the path of another socket of larderd: " + path};
  if (Status status = check_socket_path(path); !status.ok())
    return {status.code(), "backend.plugin_socket '" + path + "', which follows socket, " +
                               status.text() + "; set either of them"};
  return {};
}

// Derives socket, shared-memory name, admin socket and key prefix from the pool, so that two pools
// share no socket, file or key.
// Only keys that the user did not set follow the pool. A set key wins, even with the default's
// value.
Status follow_pool(Config& config, const Given& given) {
  if (config.pool != Config().pool) {
    if (!given.contains("socket")) config.socket = "/run/larder/" + config.pool + ".sock";
    if (!given.contains("memory.shm_name")) config.memory.shm_name = "larder-" + config.pool;
  }
  if (!config.backend.url.empty() && config.backend.prefix.empty())
    config.backend.prefix = config.pool == Config().pool ? config.pool : "larder-" + config.pool;
  if (config.http.admin_socket.empty()) config.http.admin_socket = beside_socket(config, ".admin");
  if (!config.backend.plugin.empty() && config.backend.plugin_socket.empty())
    config.backend.plugin_socket = beside_socket(config, ".plugin");
  if (Status status = check_plugin_socket(config); !status.ok()) return status;
  // Both sockets would replace each other's file, and engines would meet an HTTP server.
  if (config.http.admin_socket == config.socket)
    return {Code::kInvalidArgument,
            "http.admin_socket and socket are the same path: " + config.socket};
  if (Status status = check_socket_path(config.http.admin_socket); !status.ok())
    return {status.code(), "http.admin_socket '" + config.http.admin_socket +
                               "', which follows socket, " + status.text() +
                               "; set either of them"};
  return {};
}

// disk.path without disk.size would be a tier without room; disk.size alone would be no tier.
Status check_disk(const DiskConfig& disk, const Given& given) {
  if (disk.path.empty() == (disk.size_bytes == 0)) return {};
  if (disk.path.empty())
    return {Code::kInvalidArgument, given.at("disk.size") + "disk.size is " +
                                        print_size(disk.size_bytes) +
                                        " and disk.path is not set: set both or neither"};
  return {Code::kInvalidArgument,
          given.at("disk.path") + "disk.path is " + disk.path +
              " and disk.size is not set: set both or neither, e.g. disk.size: 100GiB"};
}

// The place where the user set a key, as the beginning of an error.
std::string place_of(const Given& given, std::string_view key) {
  const auto found = given.find(key);
  return (found == given.end() ? "" : found->second) + std::string(key);
}

// Refuses the keys of `keys` that the user set. `why` gives the reason.
Status none_of(std::span<const std::string_view> keys, const Config& config, const Given& given,
               const std::string& why) {
  for (const std::string_view key : keys) {
    // Compared as text: a key that is set to its default has no effect, and needs no error.
    const std::string text = find_field(key)->print(config);
    if (text != find_field(key)->print(Config()))
      return {Code::kInvalidArgument, place_of(given, key) + " is " + text + " and " + why};
  }
  return {};
}

// The scheme of a URL of this mode.
std::string with_tls(BackendMode mode) {
  switch (mode) {
    case BackendMode::kSentinel: return "rediss-sentinel://";
    case BackendMode::kCluster: return "rediss-cluster://";
    case BackendMode::kStandalone: break;
  }
  return "rediss://";
}

// Refuses settings that would silently have no effect, or would fail at each connect.
Status check_backend(const Config& config, const Given& given) {
  constexpr std::array<std::string_view, 4> kOfTls{"backend.ca_file", "backend.cert_file",
                                                   "backend.key_file", "backend.server_name"};
  constexpr std::array<std::string_view, 2> kOfSentinels{"backend.sentinel_user",
                                                         "backend.sentinel_password_file"};
  constexpr std::array<std::string_view, 3> kOfPlugins{
      "backend.plugin_socket", "backend.plugin_region", "backend.plugin_patience"};
  constexpr std::array<std::string_view, 2> kOfServers{"backend.password_file", "backend.ttl"};
  const BackendConfig& backend = config.backend;
  // A set backend key without a URL is a forgotten URL, mostly.
  if (backend.url.empty()) {
    std::vector<std::string_view> keys;
    for (const Field& field : fields())
      if (section_of(field.key) == "backend") keys.push_back(field.key);
    return none_of(keys, config, given, "backend.url is not set: set it, e.g. redis://host:6379");
  }
  const Status of_other =
      backend.plugin.empty()
          ? none_of(kOfPlugins, config, given,
                    "backend.url names no plug-in: make it mooncake://host:port or plugin://...")
          : none_of(kOfServers, config, given,
                    "backend.url names a plug-in: the plug-in has settings of its own");
  if (!of_other.ok()) return of_other;
  if (!backend.tls)
    if (Status status = none_of(kOfTls, config, given,
                                "backend.url is without TLS: make it " + with_tls(backend.mode));
        !status.ok())
      return status;
  if (backend.mode != BackendMode::kSentinel)
    if (Status status = none_of(
            kOfSentinels, config, given,
            "backend.url names no Sentinels: make it redis-sentinel://host:port,.../MASTER");
        !status.ok())
      return status;
  if (backend.read_replicas && backend.mode != BackendMode::kCluster)
    return {Code::kInvalidArgument,
            place_of(given, "backend.read_replicas") +
                " is true and backend.url names no Cluster: make it redis-cluster://"};
  // OpenSSL would fail at each connect, in the log of a running larderd. The start is the better
  // place.
  if (backend.cert_file.empty() != backend.key_file.empty()) {
    const bool key_missing = backend.key_file.empty();
    return {Code::kInvalidArgument,
            place_of(given, key_missing ? "backend.cert_file" : "backend.key_file") +
                " is set and backend." + (key_missing ? "key_file" : "cert_file") +
                " is not: set both or neither"};
  }
  // AUTH takes a name and a password. Without a password the name would never be sent.
  if (!backend.user.empty() && backend.password_file.empty())
    return {Code::kInvalidArgument,
            place_of(given, "backend.url") + " names a user and backend.password_file is not set"};
  if (!backend.sentinel_user.empty() && backend.sentinel_password_file.empty())
    return {Code::kInvalidArgument, place_of(given, "backend.sentinel_user") +
                                        " is set and backend.sentinel_password_file is not"};
  return {};
}

// TLS needs all of its four keys; without TLS they would silently have no effect.
Status check_peers(const Config& config, const Given& given) {
  constexpr std::array<std::string_view, 4> kOfTls{"peers.ca_file", "peers.cert_file",
                                                   "peers.key_file", "peers.server_name"};
  const PeersConfig& peers = config.peers;
  if (!peers.enabled()) {
    std::vector<std::string_view> keys;
    for (const Field& field : fields())
      if (section_of(field.key) == "peers") keys.push_back(field.key);
    return none_of(
        keys, config, given,
        "neither peers.listen nor peers.members is set: set one, e.g. peers.listen: 0.0.0.0:9466");
  }
  // Both settings together are a contradiction. Guessing "with TLS" or "without" could expose
  // prompts.
  if (peers.plaintext)
    return none_of(kOfTls, config, given, "peers.plaintext is true: remove one of them");
  const std::string_view begun = peers.listen.empty() ? "peers.members" : "peers.listen";
  for (const std::string_view key : kOfTls)
    if (find_field(key)->print(config).empty())
      return {Code::kInvalidArgument,
              place_of(given, begun) + " is set and " + std::string(key) +
                  " is not: set peers.ca_file, cert_file, key_file and server_name for TLS, or "
                  "peers.plaintext: true for a network that you trust"};
  return {};
}

// Sets derived values, and refuses settings that exclude each other.
// A configuration is valid as a whole or refused: larderd never starts with a part of the settings.
// Test: tests/unit/config.
Status complete(Config& config, const Given& given) {
  // First the derived values: the checks below and all readers see complete settings.
  if (Status status = follow_pool(config, given); !status.ok()) return status;
  if (Status status = check_disk(config.disk, given); !status.ok()) return status;
  if (Status status = check_backend(config, given); !status.ok()) return status;
  return check_peers(config, given);
}

}  // namespace

Environment process_environment() {
  Environment result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    // POSIX allows entries without '='.
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

std::vector<std::string> unknown_variables(const Environment& environment) {
  const Names known = known_variables();
  std::vector<std::string> unknown;
  for (const auto& [name, value] : environment) {
    if (!name.starts_with("LARDER_") || in_section(name) || known.contains(name)) continue;
    if (!read_by_others(name) && !set_by_kubernetes(name, value)) unknown.push_back(name);
  }
  return unknown;
}

std::optional<std::string> file_of(const std::optional<std::string>& file,
                                   const Environment& environment) {
  if (file) return file;
  const auto named = environment.find("LARDER_CONFIG_FILE");
  // An empty variable counts as unset, as in a shell script that clears the variable.
  return named == environment.end() || named->second.empty() ? std::nullopt
                                                             : std::optional(named->second);
}

Result<Config> load(const std::optional<std::string>& file, const Environment& environment) {
  Config config;
  Given given;
  // The order decides: a later source overwrites an earlier one.
  if (const std::optional<std::string> counts = file_of(file, environment))
    if (Status status = apply_file(*counts, config, given); !status.ok()) return status;
  if (Status status = apply_environment(environment, config, given); !status.ok()) return status;
  if (Status status = complete(config, given); !status.ok()) return status;
  return config;
}

Result<Config> load(std::span<const Value> values) {
  Config config;
  Given given;
  for (const Value& value : values)
    if (Status status = apply(*find_field(value.key), "", value.name, value.text, config, given);
        !status.ok())
      return status;
  if (Status status = complete(config, given); !status.ok()) return status;
  return config;
}

}  // namespace larder::config
