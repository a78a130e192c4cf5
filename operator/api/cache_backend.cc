#include "operator/api/cache_backend.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

namespace larder::api {
namespace {

constexpr std::array<std::string_view, 3> kTypes{"Redis", kPlugins[0].service, kPlugins[1].service};
static_assert(plugin_of(BackendType::kInfiniStore) == &kPlugins.back());
constexpr std::array<std::string_view, 2> kProtocols{"tcp", "rdma"};
constexpr std::array<std::string_view, 3> kModes{"Standalone", "Sentinel", "Cluster"};
constexpr std::array<std::string_view, 2> kEngines{"valkey", "redis"};
// Policies that evict by use. With volatile-* every pool of the backend needs backendWrite.ttl.
// noeviction is not allowed: a full server would refuse every chunk.
constexpr std::array<std::string_view, 4> kPolicies{"allkeys-lru", "allkeys-lfu", "volatile-lru",
                                                    "volatile-lfu"};
constexpr std::uint64_t kLeastServerMemory = 256ULL << 20, kMostServerMemory = 16ULL << 40;
// The largest number that a server accepts, as in larderd (sidecar/config/backend_url.cc).
constexpr std::int64_t kMostDatabase = (1LL << 31) - 1;
constexpr std::size_t kMostEndpoints = 32;  // the bound of larderd
// The least contribution that the plug-in accepts (plugins/mooncake/larder_mooncake/settings.py).
constexpr std::uint64_t kLeastContribution = 16ULL << 20, kMostContribution = 16ULL << 40;

std::optional<SecretKey> read_secret(SpecReader& reader, const std::string& path) {
  if (!reader.has(path)) return std::nullopt;
  SecretKey secret;
  secret.name = reader.needed_text(path + ".name");
  secret.key = reader.text(path + ".key", "password");
  return secret;
}

TlsSpec read_tls(SpecReader& reader) {
  TlsSpec tls;
  if (!reader.has("spec.tls")) return tls;
  tls.enabled = reader.truth("spec.tls.enabled", true);
  tls.ca_secret = reader.text("spec.tls.caSecret");
  tls.client_secret = reader.text("spec.tls.clientSecret");
  tls.server_name = reader.text("spec.tls.serverName");
  return tls;
}

ManagedSpec read_managed(SpecReader& reader) {
  ManagedSpec managed;
  managed.engine = kEngines[reader.choice("spec.managed.engine", kEngines, "valkey")];
  managed.image = reader.text("spec.managed.image");
  // An absent policy leaves the choice to Kubernetes: Always for the tag latest, otherwise
  // IfNotPresent.
  if (reader.has("spec.managed.imagePullPolicy"))
    managed.image_pull_policy =
        kPullPolicies[reader.choice("spec.managed.imagePullPolicy", kPullPolicies, "")];
  managed.memory_bytes =
      reader.size("spec.managed.memory", kLeastServerMemory, kMostServerMemory).bytes;
  managed.policy = kPolicies[reader.choice("spec.managed.policy", kPolicies, "allkeys-lru")];
  managed.resources = reader.map("spec.managed.resources");
  managed.node_selector = reader.map("spec.managed.nodeSelector");
  managed.tolerations = reader.list("spec.managed.tolerations");
  managed.affinity = reader.map("spec.managed.affinity");
  managed.priority_class = reader.text("spec.managed.priorityClassName");
  return managed;
}

MooncakeSpec read_mooncake(SpecReader& reader) {
  MooncakeSpec mooncake;
  if (!reader.has("spec.mooncake")) return mooncake;
  mooncake.rdma = reader.choice("spec.mooncake.protocol", kProtocols, "tcp") == 1;
  mooncake.devices = reader.texts("spec.mooncake.devices");
  mooncake.device_resource = reader.text("spec.mooncake.deviceResource");
  mooncake.contribute_bytes =
      reader.size("spec.mooncake.contribute", kLeastContribution, kMostContribution, "0").bytes;
  mooncake.members_from = reader.list("spec.mooncake.membersFrom");
  for (const Object& member : mooncake.members_from)
    if (!member.is_object())
      reader.refuse("spec.mooncake.membersFrom",
                    "holds " + std::string(member.type_name()) + ": must be objects");
  return mooncake;
}

// HOST:PORT, with an IPv6 address in brackets. larderd refuses every other form and would not
// start.
bool is_endpoint(std::string_view text) {
  // rfind, since an IPv6 address has colons of its own: "[fd00::1]:6379".
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = text.substr(0, colon), digits = text.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0 || port > 65535)
    return false;
  // An IPv6 address without brackets has a colon in its host and fails: "fd00::1:6379" has two
  // readings.
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string_view plain = bracketed ? host.substr(1, host.size() - 2) : host;
  return std::ranges::all_of(plain, [bracketed](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || (bracketed ? c == ':' : c == '-' || c == '_');
  });
}

void check_words(const BackendSpec& spec, SpecReader& reader) {
  for (const std::string& endpoint : spec.endpoints)
    if (!is_endpoint(endpoint))
      reader.refuse(
          "spec.endpoints",
          "'" + endpoint + "' is not an endpoint: write HOST:PORT, e.g. redis.cache.svc:6379");
  // larderd refuses a URL with a space in its user, and would not start.
  for (const auto& [path, name] :
       {std::pair("spec.user", &spec.user), std::pair("spec.sentinelUser", &spec.sentinel_user)})
    if (name->find(' ') != std::string::npos) reader.refuse(path, "'" + *name + "' holds a space");
}

bool has_only(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [more](unsigned char c) {
    return std::isalnum(c) != 0 || more.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// The devices become an argument, and deviceResource a resource of a container: the API server
// would refuse each pod with a wrong name.
void check_devices(const MooncakeSpec& mooncake, SpecReader& reader) {
  if (!mooncake.rdma && !mooncake.devices.empty())
    reader.refuse("spec.mooncake.devices", "is for protocol rdma: write protocol: rdma");
  if (!mooncake.rdma && !mooncake.device_resource.empty())
    reader.refuse("spec.mooncake.deviceResource", "is for protocol rdma: write protocol: rdma");
  if (mooncake.rdma && mooncake.device_resource.empty())
    reader.refuse("spec.mooncake.deviceResource",
                  "is missing: write the resource of your RDMA device plugin, e.g. rdma/hca");
  for (const std::string& device : mooncake.devices)
    if (device.empty() || !has_only(device, "_-"))
      reader.refuse("spec.mooncake.devices",
                    "'" + device + "' is no device: write a name of `ibv_devices`, e.g. mlx5_0");
  const std::string& resource = mooncake.device_resource;
  const std::size_t slash = resource.find('/');
  if (!resource.empty() &&
      (slash == 0 || slash >= resource.size() - 1 || !has_only(resource.substr(0, slash), ".-") ||
       !has_only(resource.substr(slash + 1), "._-")))
    reader.refuse("spec.mooncake.deviceResource",
                  "'" + resource + "' is no resource of a device plugin: write e.g. rdma/hca");
}

// A service behind a plug-in has no password, no TLS and no databases, and the operator runs none.
void check_plugin(const BackendSpec& spec, const Plugin& plugin, SpecReader& reader) {
  const BackendSpec unset;
  for (const auto& [path, given] :
       {std::pair("spec.managed", spec.managed.has_value()),
        std::pair("spec.mode", spec.mode != unset.mode),
        std::pair("spec.master", !spec.master.empty()),
        std::pair("spec.database", spec.database != 0), std::pair("spec.user", !spec.user.empty()),
        std::pair("spec.password", spec.password.has_value()),
        std::pair("spec.sentinelUser", !spec.sentinel_user.empty()),
        std::pair("spec.sentinelPassword", spec.sentinel_password.has_value()),
        std::pair("spec.tls", spec.tls.enabled),
        std::pair("spec.readReplicas", spec.read_replicas)})
    if (given) reader.refuse(path, "is for type Redis: remove the field, or write type: Redis");
  if (spec.endpoints.size() > 1)
    reader.refuse("spec.endpoints",
                  "has several items: type " + std::string(plugin.service) + " takes one");
}

// Rules over several fields. The API server checks the same rules by CEL. An object that was stored
// under an older schema reaches this check without them, and would make a pod that cannot run.
void check(const BackendSpec& spec, SpecReader& reader) {
  if (const Plugin* plugin = plugin_of(spec.type)) check_plugin(spec, *plugin, reader);
  if (spec.type == BackendType::kMooncake)
    check_devices(spec.mooncake, reader);
  else if (reader.has("spec.mooncake"))
    reader.refuse("spec.mooncake", "is for type Mooncake: remove the field");
  if (spec.managed.has_value() == !spec.endpoints.empty())
    reader.refuse("spec.endpoints", spec.managed ? "is not for a managed backend: remove the field"
                                                 : "is missing: write HOST:PORT of the server");
  if (spec.endpoints.size() > kMostEndpoints)
    reader.refuse("spec.endpoints", "has more than " + std::to_string(kMostEndpoints) +
                                        " items: a few are enough to find the others");
  if (!spec.managed && spec.mode == BackendMode::kStandalone && spec.endpoints.size() > 1)
    reader.refuse("spec.endpoints", "has several items: mode Standalone takes one");
  if (spec.mode == BackendMode::kSentinel && spec.master.empty())
    reader.refuse("spec.master", "is missing: the name in `sentinel monitor NAME`");
  if (!spec.user.empty() && !spec.password)
    reader.refuse("spec.password", "is missing: spec.user needs a password, name the Secret");
  if (!spec.sentinel_user.empty() && !spec.sentinel_password)
    reader.refuse("spec.sentinelPassword",
                  "is missing: spec.sentinelUser needs a password, name the Secret");
  if (spec.mode == BackendMode::kCluster && spec.database != 0)
    reader.refuse("spec.database", "must be 0: a Cluster has no other database");
}

BackendSpec read_backend(SpecReader& reader) {
  BackendSpec spec;
  spec.type = static_cast<BackendType>(reader.choice("spec.type", kTypes, "Redis"));
  spec.mooncake = read_mooncake(reader);
  spec.mode = static_cast<BackendMode>(reader.choice("spec.mode", kModes, "Standalone"));
  spec.endpoints = reader.texts("spec.endpoints");
  spec.master = reader.text("spec.master");
  spec.database = static_cast<int>(reader.number("spec.database", 0, kMostDatabase, 0));
  spec.user = reader.text("spec.user");
  spec.password = read_secret(reader, "spec.password");
  spec.sentinel_user = reader.text("spec.sentinelUser");
  spec.sentinel_password = read_secret(reader, "spec.sentinelPassword");
  spec.tls = read_tls(reader);
  spec.read_replicas = reader.truth("spec.readReplicas", false);
  if (reader.has("spec.managed")) spec.managed = read_managed(reader);
  check_words(spec, reader);
  check(spec, reader);
  return spec;
}

}  // namespace

Result<CacheBackend> parse_backend(const Object& object) {
  SpecReader reader(object);
  CacheBackend backend;
  backend.ns = namespace_of(object);
  backend.name = name_of(object);
  backend.uid = text_at(object, "metadata.uid");
  backend.generation = number_at(object, "metadata.generation");
  backend.spec = read_backend(reader);
  if (!reader.status().ok()) return reader.status();
  return backend;
}

std::vector<SpecField> backend_fields() {
  const Object none;
  SpecReader reader(none, true);
  read_backend(reader);
  return reader.fields();
}

}  // namespace larder::api
