// Where a shared backend is, in one line. Pure; thread-safe.
//
//     redis://[user@]host[:port][/database]
//     redis-sentinel://[user@]host[:port][,host[:port]...]/MASTER[/database]     Sentinels; the name under which they know the master
//     redis-cluster://[user@]host[:port][,host[:port]...]                        some nodes of a Cluster, which tell the others
//     unix:///path/of/its/socket
//
// rediss...:// for TLS; valkey...:// and valkeys...:// are the same. An IPv6 address stands in brackets; what no URL may hold in a
// user's name is written as %40. The user is the servers' own: Sentinels have another list of users.
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

  BackendMode mode = BackendMode::kStandalone;
  bool tls = false;
  std::vector<BackendHost> hosts;  // one of a standalone server, unless it has a socket; else never one twice
  std::string unix_path;
  std::string sentinel_master;
  std::string user;
  std::uint32_t database = 0;
};

// A password in it is refused. An error is a half sentence, "holds a password: ...", that says nothing of what stands in the URL but
// its scheme: who forgot the file may have written the password anywhere.
Result<BackendUrl> parse_backend_url(std::string_view text);
// The same URL, for whom the user's name does not concern. REQUIRES: it is one.
inline std::string without_user(std::string_view url) {
  const std::size_t hosts = url.find("://") + 3, at = url.find('@', hosts);
  const bool user = at != std::string_view::npos && at < url.find('/', hosts);
  return user ? std::string(url.substr(0, hosts)) + std::string(url.substr(at + 1)) : std::string(url);
}

}  // namespace larder::config
