// The URL of a shared backend. Pure; thread-safe.
//
//     redis://[user@]host[:port][/database]
//     redis-sentinel://[user@]host[:port][,host[:port]...]/MASTER[/database]
//     redis-cluster://[user@]host[:port][,host[:port]...]
//     unix:///path/of/its/socket
//     mooncake://HOST:PORT, infinistore://HOST:PORT, plugin://ANYTHING
//
// The last three select a plug-in, which reads the text behind the scheme. // MASTER is the name of the master at the Sentinels. The hosts of a Cluster are some of its nodes,
// which list the others. rediss...:// means TLS; valkey...:// and valkeys...:// are synonyms. An
// IPv6 address stands in brackets. In a user name, reserved characters are percent-encoded: %40 is
// @. The user is a user of the servers; Sentinels have a user list of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::config {

enum class BackendMode : std::uint8_t { kStandalone, kSentinel, kCluster };

struct BackendHost {
  std::string host;  // a name, or an IPv4 or IPv6 address
  std::uint16_t port = 0;
  friend bool operator==(const BackendHost&, const BackendHost&) = default;
};

struct BackendUrl {
  static constexpr std::size_t kMostHosts = 32;

  std::string plugin;  // the scheme of a plug-in, as "mooncake"; "": a Redis or Valkey
  BackendMode mode = BackendMode::kStandalone;
  bool tls = false;
  // Without duplicates. Standalone: one host, or empty with unix_path.
  std::vector<BackendHost> hosts;
  std::string unix_path;
  std::string sentinel_master;
  std::string user;
  std::uint32_t database = 0;
};

// Refuses a URL with a password. An error is a half sentence, "holds a password: ...". An error
// repeats only the scheme of the URL, because a user may have written a password anywhere in the
// URL.
Result<BackendUrl> parse_backend_url(std::string_view text);
// The URL without the user's name, for readers outside of the operator's trust. REQUIRES: `url` is
// valid.
inline std::string without_user(std::string_view url) {
  const std::size_t hosts = url.find("://") + 3, at = url.find('@', hosts);
  const bool user = at != std::string_view::npos && at < url.find('/', hosts);
  return user ? std::string(url.substr(0, hosts)) + std::string(url.substr(at + 1))
              : std::string(url);
}

}  // namespace larder::config
