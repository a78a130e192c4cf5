#include "sidecar/config/section_fields.h"

#include <algorithm>
#include <array>

#include "sidecar/config/backend_url.h"
#include "sidecar/config/values.h"

namespace larder::config {
namespace {

// A smaller rate is a forgotten unit, or a backend or peer that no chunk ever reaches.
constexpr std::uint64_t kLeastRate = 1ULL << 20;
constexpr std::uint64_t kMostRate = 1ULL << 40;
constexpr std::uint64_t kLeastRegion = 32ULL << 20, kMostRegion = 64ULL << 30;
constexpr std::uint32_t kMostPatienceS = 600;
constexpr std::size_t kMostServerName = 253, kMostUserName = 256;  // bytes; 253 by DNS
constexpr std::uint32_t kMostFanout = 16;
// A longer list is a task for a headless Service and `dns:`.
constexpr std::size_t kMostMembers = 1024;

struct WriteName {
  std::string_view name;
  BackendWrite value;
};
constexpr std::array<WriteName, 3> kWrites{{{"all", BackendWrite::kAll},
                                            {"evicted", BackendWrite::kEvicted},
                                            {"popular", BackendWrite::kPopular}}};

// 0 is "no limit" and not "nothing": to write nothing, remove the tier.
Status set_rate(std::string_view text, std::uint64_t& target) {
  const Result<std::uint64_t> bytes = parse_size(text);
  if (!bytes.ok()) return bytes.status();
  if (*bytes != 0 && (*bytes < kLeastRate || *bytes > kMostRate))
    return {Code::kOutOfRange,
            "is out of range: 0, or " + print_size(kLeastRate) + " to " + print_size(kMostRate)};
  target = *bytes;
  return {};
}

Status set_flag(std::string_view text, bool& target) {
  if (text != "true" && text != "false")
    return {Code::kInvalidArgument, "is not one of: true, false"};
  target = text == "true";
  return {};
}

Status set_host(std::string_view text, std::string& target) {
  // The name goes into SNI and into the check of the certificate.
  if (text.size() > kMostServerName || !(is_host(text, false) || is_host(text, true)))
    return {Code::kInvalidArgument, "is neither a host's name nor an address"};
  target = text;
  return {};
}

// "host:port", "[::1]:port".
Result<BackendHost> parse_member(std::string_view text) {
  const Status wrong(Code::kInvalidArgument, "is not host:port,host:port,... or dns:NAME:PORT: \"" +
                                                 std::string(text) + "\"");
  const Result<ListenAddress> address = parse_listen(text);
  // Port 0 means "any free port" for a listener; a peer to connect to needs its number.
  if (!address.ok() || address->host.empty() || address->port == 0) return wrong;
  return BackendHost{address->host, address->port};
}

}  // namespace

Status set(std::string_view text, std::string& target, Status (*check)(std::string_view)) {
  if (Status status = check(text); !status.ok()) return status;
  target = text;
  return {};
}

// Accepts an empty text, which means none.
Status set_path(std::string_view text, std::string& target) {
  return text.empty() ? set(text, target, [](std::string_view) { return Status(); })
                      : set(text, target, check_absolute_path);
}

Status set_backend_url(std::string_view text, Config& config) {
  const Result<BackendUrl> url = text.empty() ? BackendUrl() : parse_backend_url(text);
  if (!url.ok()) return url.status();
  config.backend.url = text;
  // The parts of the URL stand beside the other keys of the backend: host, mode, user, database.
  static_cast<BackendUrl&>(config.backend) = *url;
  return {};
}

Status set_sentinel_user(std::string_view text, Config& config) {
  // Redis has no users with a blank in the name: a blank is a slip in the file.
  const bool plain =
      std::ranges::none_of(text, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
  if (!plain || text.size() > kMostUserName) return {Code::kInvalidArgument, "is no user's name"};
  config.backend.sentinel_user = text;
  return {};
}

Status set_server_name(std::string_view text, Config& config) {
  return set_host(text, config.backend.server_name);
}

Status set_read_replicas(std::string_view text, Config& config) {
  return set_flag(text, config.backend.read_replicas);
}

Status set_prefix(std::string_view text, Config& config) {
  if (!text.empty()) return set(text, config.backend.prefix, check_prefix);
  config.backend.prefix.clear();
  return {};
}

Status set_backend_ttl(std::string_view text, Config& config) {
  const Result<std::uint32_t> seconds = parse_duration_s(text);
  if (!seconds.ok()) return seconds.status();
  config.backend.ttl_s = *seconds;
  return {};
}

Status set_backend_write(std::string_view text, Config& config) {
  for (const WriteName& write : kWrites) {
    if (write.name != text) continue;
    config.backend.write = write.value;
    return {};
  }
  return {Code::kInvalidArgument, "is not one of: all, evicted, popular"};
}

std::string print_backend_write(const Config& config) {
  for (const WriteName& write : kWrites)
    if (write.value == config.backend.write) return std::string(write.name);
  return "?";
}

Status set_write_rate(std::string_view text, Config& config) {
  return set_rate(text, config.backend.write_bytes_per_s);
}

Status set_plugin_region(std::string_view text, Config& config) {
  const Result<std::uint64_t> bytes = parse_size(text);
  if (!bytes.ok()) return bytes.status();
  if (*bytes < kLeastRegion || *bytes > kMostRegion || *bytes % 4096 != 0)
    return {Code::kOutOfRange, "is out of range: whole pages, " + print_size(kLeastRegion) +
                                   " to " + print_size(kMostRegion)};
  config.backend.plugin_region_bytes = *bytes;
  return {};
}

Status set_plugin_patience(std::string_view text, Config& config) {
  const Result<std::uint32_t> seconds = parse_duration_s(text);
  if (!seconds.ok()) return seconds.status();
  if (*seconds < 1 || *seconds > kMostPatienceS)
    return {Code::kOutOfRange, "is out of range: 1s to 10m"};
  config.backend.plugin_patience_s = *seconds;
  return {};
}

// The parts are cleared first: a reload may set the key to "".
Status set_peers_listen(std::string_view text, Config& config) {
  config.peers.listen = text;
  config.peers.listen_host.clear();
  config.peers.listen_port = 0;
  if (text.empty()) return {};
  const Result<ListenAddress> address = parse_listen(text);
  if (!address.ok())
    return Status(address.status().code(), address.status().text() + ", or \"\" for none");
  config.peers.listen_host = address->host;
  config.peers.listen_port = address->port;
  return {};
}

Status set_peers_members(std::string_view text, Config& config) {
  constexpr std::string_view kDns = "dns:";
  PeersConfig& peers = config.peers;
  // As given, for /v1/status and for --check-config.
  peers.members = text;
  peers.member_hosts.clear();
  peers.members_by_dns = text.starts_with(kDns);
  std::string_view rest = peers.members_by_dns ? text.substr(kDns.size()) : text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    Result<BackendHost> host = parse_member(rest.substr(0, end));
    if (!host.ok()) return host.status();
    // A doubled member is harmless, so it counts once and is no error.
    if (std::ranges::find(peers.member_hosts, *host) == peers.member_hosts.end())
      peers.member_hosts.push_back(*std::move(host));
    // Without this check "a:1," would end as if the list had been complete.
    if (end + 1 == rest.size()) return {Code::kInvalidArgument, "ends with a comma"};
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // Each address of the one name is a member, and the name is asked again while larderd runs.
  if (peers.members_by_dns && peers.member_hosts.size() != 1)
    return {Code::kInvalidArgument, "is not dns:NAME:PORT with one name"};
  if (peers.member_hosts.size() > kMostMembers)
    return {Code::kOutOfRange,
            "names more than " + std::to_string(kMostMembers) + " members: use dns:NAME:PORT"};
  return {};
}

Status set_peers_fanout(std::string_view text, Config& config) {
  std::uint32_t fanout = 0;
  if (!parse_number(text, fanout) || fanout < 1 || fanout > kMostFanout)
    return {Code::kOutOfRange, "is out of range: 1 to " + std::to_string(kMostFanout)};
  config.peers.fanout = fanout;
  return {};
}

Status set_serve_rate(std::string_view text, Config& config) {
  return set_rate(text, config.peers.serve_bytes_per_s);
}

Status set_peers_plaintext(std::string_view text, Config& config) {
  return set_flag(text, config.peers.plaintext);
}

Status set_peers_server_name(std::string_view text, Config& config) {
  if (!text.empty()) return set_host(text, config.peers.server_name);
  config.peers.server_name.clear();
  return {};
}

}  // namespace larder::config
