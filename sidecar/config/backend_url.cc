#include "sidecar/config/backend_url.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "sidecar/config/values.h"

namespace larder::config {
namespace {

constexpr std::uint32_t kMostDatabase = (1U << 31) - 1;  // the largest number that a server accepts
// The longest scheme that a user can mean ("valkeys-sentinel") is shorter. Longer texts may hold a
// secret and are not repeated.
constexpr std::size_t kMostSchemeShown = 24;

Status invalid(std::string text) {
  return {Code::kInvalidArgument, std::move(text)};
}

// The default ports of Redis and Valkey, and of their Sentinels.
constexpr std::uint16_t kServerPort = 6379, kSentinelPort = 26379;
constexpr std::size_t kMostMasterName = 128;

struct Scheme {
  std::string_view name;
  bool tls;
};
constexpr std::array<Scheme, 4> kSchemes{
    {{"redis", false}, {"rediss", true}, {"valkey", false}, {"valkeys", true}}};

// Other schemes are mostly slips, so a plug-in of another kind has the general scheme.
constexpr std::array<std::string_view, 3> kPlugins{"mooncake", "infinistore", "plugin"};
constexpr std::size_t kMostPluginUrl = 1024;

struct Suffix {
  std::string_view text;
  BackendMode mode;
};
// The empty suffix comes last, as every name ends with it.
constexpr std::array<Suffix, 3> kSuffixes{{{"-sentinel", BackendMode::kSentinel},
                                           {"-cluster", BackendMode::kCluster},
                                           {"", BackendMode::kStandalone}}};

Status no_url() {
  return invalid(
      "is no URL of a Redis or Valkey: redis://[user@]host[:port][/database], "
      "redis-sentinel://host:port,.../MASTER, "
      "redis-cluster://host:port,..., rediss... for TLS, unix:///path; nor of a plug-in: "
      "mooncake://host:port, infinistore://host:port, plugin://...");
}

// Parses the scheme into `url`. False if `name` is no scheme of a backend.
// Suffix and name are two small tables instead of one with twelve rows: "rediss-cluster" is
// "rediss" and "-cluster".
bool take_scheme(std::string_view name, BackendUrl& url) {
  for (const Suffix& suffix : kSuffixes) {
    if (!name.ends_with(suffix.text)) continue;
    const auto* scheme = std::ranges::find(
        kSchemes, name.substr(0, name.size() - suffix.text.size()), &Scheme::name);
    // "foo-cluster" is no scheme, and must not match the empty suffix either.
    if (scheme == kSchemes.end()) continue;
    url.mode = suffix.mode;
    url.tls = scheme->tls;
    return true;
  }
  return false;
}

Status unknown_scheme(std::string_view scheme) {
  // Only letters, '+' and '-' are shown. Any other character means that the text before "://" is no
  // scheme, perhaps a password.
  const bool plain = std::ranges::all_of(
      scheme, [](char c) { return (c >= 'a' && c <= 'z') || c == '+' || c == '-'; });
  if (scheme.empty() || !plain || scheme.size() > kMostSchemeShown) return no_url();
  return invalid("begins with '" + std::string(scheme) +
                 "://', which is not one of: redis://, rediss://, valkey://, valkeys://, unix://, "
                 "and for Sentinels or a Cluster "
                 "redis-sentinel://, redis-cluster:// and their like; for a plug-in mooncake://, "
                 "infinistore://, plugin://");
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Percent-decoding: "%40" is "@". Empty if a '%' lacks two digits, or a character is not allowed in
// a name.
std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size() || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0)
        return std::nullopt;
      c = static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    }
    // Also after decoding: "%0a" in a name would end a line of the log or of a command.
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) return std::nullopt;
    plain += c;
  }
  return plain;
}

// A password in the URL would appear in `ps`, in /v1/status and in a ConfigMap. A file can be
// rotated, and read again at each connect.
Status take_user(std::string_view user, BackendUrl& url) {
  if (user.find(':') != std::string_view::npos)
    return invalid(
        "holds a password: put it into a file of its own, and name that in backend.password_file");
  const std::optional<std::string> name = decoded(user);
  if (!name || name->empty()) return invalid("has no user's name before its '@'");
  url.user = *name;
  return {};
}

Status take_host(std::string_view place, BackendUrl& url) {
  const bool bracketed = place.starts_with('[');
  // An IPv6 address has colons of its own, so only brackets can separate address and port.
  const std::size_t end = bracketed ? place.find(']') : std::min(place.find(':'), place.size());
  if (end == std::string_view::npos) return invalid("has a '[' without its ']'");
  const std::string_view host = bracketed ? place.substr(1, end - 1) : place.substr(0, end);
  const std::string_view rest = place.substr(end + (bracketed ? 1 : 0));
  // A common slip with its own remedy, instead of a complaint about the port.
  if (!bracketed && std::ranges::count(place, ':') > 1)
    return invalid("holds an IPv6 address without brackets: write redis://[::1]:6379");
  if (host.empty() || !is_host(host, bracketed))
    return invalid("names no host: a name, an IPv4 address, or an IPv6 address in brackets");
  BackendHost one{std::string(host),
                  url.mode == BackendMode::kSentinel ? kSentinelPort : kServerPort};
  if (!rest.empty() &&
      (!rest.starts_with(':') || !parse_number(rest.substr(1), one.port) || one.port == 0))
    return invalid("has no port of 1 to 65535 behind its host");
  // A host that is named twice would count as two Sentinels or nodes, and would hide that a second
  // one is missing.
  if (std::ranges::find(url.hosts, one) != url.hosts.end()) return invalid("names a host twice");
  url.hosts.push_back(std::move(one));
  return {};
}

// One host, or several hosts separated by commas.
Status take_hosts(std::string_view places, BackendUrl& url) {
  if (url.mode == BackendMode::kStandalone && places.find(',') != std::string_view::npos)
    return invalid(
        "names several hosts: make it redis-cluster:// for nodes of a Cluster, redis-sentinel:// "
        "for Sentinels");
  for (;;) {
    // Checked before the host is parsed, so a text of any length costs a bounded list.
    if (url.hosts.size() == BackendUrl::kMostHosts)
      return invalid("names more than " + std::to_string(BackendUrl::kMostHosts) +
                     " hosts: a few are enough to find the others");
    const std::size_t comma = std::min(places.find(','), places.size());
    if (Status status = take_host(places.substr(0, comma), url); !status.ok()) return status;
    if (comma == places.size()) return {};
    places.remove_prefix(comma + 1);
  }
}

Status take_database(std::string_view text, BackendUrl& url) {
  // "redis://host/" means database 0, as in other clients.
  if (text.empty()) return {};
  if (parse_number(text, url.database) && url.database <= kMostDatabase) return {};
  return invalid("has no number of a database behind its '/'");
}

// The name of the master, and optionally a database.
Status take_master(std::string_view text, BackendUrl& url) {
  const std::string_view name = text.substr(0, text.find('/'));
  // The name becomes an argument of SENTINEL commands and appears in logs.
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > kMostMasterName || !std::ranges::all_of(name, plain))
    return invalid(
        "names no master behind the Sentinels: redis-sentinel://host:port,.../MASTER, as in "
        "`sentinel monitor MASTER`");
  url.sentinel_master = name;
  // Behind the name and a '/', or behind the end of the text.
  return take_database(text.substr(std::min(name.size() + 1, text.size())), url);
}

// Parses the part behind the hosts and a '/'.
Status take_path(std::string_view text, BackendUrl& url) {
  if (url.mode == BackendMode::kSentinel) return take_master(text, url);
  if (Status status = take_database(text, url); !status.ok()) return status;
  if (url.mode == BackendMode::kCluster && url.database != 0)
    return invalid("names a database: a Cluster has 0 alone");
  return {};
}

// The plug-in reads the text; larderd shows the text in status and log.
Result<BackendUrl> parse_plugin(std::string_view name, std::string_view rest) {
  BackendUrl url;
  url.plugin = name;
  const bool plain =
      std::ranges::all_of(rest, [](unsigned char c) { return c > ' ' && c < 0x7f && c != '@'; });
  if (rest.empty() || !plain || rest.size() > kMostPluginUrl)
    return invalid("names no service for the plug-in: " + std::string(name) +
                   "://host:port, without user, password and blanks");
  return url;
}

Result<BackendUrl> parse_unix(std::string_view rest) {
  BackendUrl url;
  const std::size_t slash = rest.find('/');
  // Only before the first slash: a path may contain '@'.
  if (const std::size_t at = rest.substr(0, slash).rfind('@'); at != std::string_view::npos) {
    if (Status status = take_user(rest.substr(0, at), url); !status.ok()) return status;
    rest.remove_prefix(at + 1);
  }
  // As in all errors here, the text is left out: it could hold the part before a forgotten '@'.
  if (!rest.starts_with('/')) return invalid("names no absolute path: unix:///path");
  if (Status status = check_socket_path(rest); !status.ok()) return status;
  url.unix_path = rest;
  return url;
}

}  // namespace

Result<BackendUrl> parse_backend_url(std::string_view text) {
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) return no_url();
  const std::string_view name = text.substr(0, colon);
  std::string_view rest = text.substr(colon + 3);
  if (std::ranges::find(kPlugins, name) != kPlugins.end()) return parse_plugin(name, rest);
  // Other clients take options there ("?ssl_cert_reqs=none"). A silently ignored option could
  // switch off a check that the user relies on.
  if (rest.find_first_of("?#") != std::string_view::npos)
    return invalid("holds a '?' or a '#': what is not in " +
                   std::string(name.ends_with("-sentinel")
                                   ? "redis-sentinel://[user@]host[:port],.../MASTER[/database]"
                                   : "redis://[user@]host[:port][/database]") +
                   " has a key of its own in backend");
  if (name == "unix") return parse_unix(rest);
  BackendUrl url;
  if (!take_scheme(name, url)) return unknown_scheme(name);
  // The last '@' ends the user: a password may contain '@' and '/'.
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    if (Status status = take_user(rest.substr(0, at), url); !status.ok()) return status;
    rest.remove_prefix(at + 1);
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  if (Status status = take_hosts(rest.substr(0, slash), url); !status.ok()) return status;
  if (Status status = take_path(rest.substr(std::min(slash + 1, rest.size())), url); !status.ok())
    return status;
  return url;
}

}  // namespace larder::config
