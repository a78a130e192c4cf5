#include "sidecar/tiers/remote/options.h"

#include "sidecar/config/config.h"

namespace larder::remote {

namespace {

Mode mode_of(config::BackendMode mode) {
  switch (mode) {
    case config::BackendMode::kSentinel: return Mode::kSentinel;
    case config::BackendMode::kCluster: return Mode::kCluster;
    case config::BackendMode::kStandalone: break;
  }
  return Mode::kStandalone;
}

}  // namespace

RemoteOptions options_of(const config::BackendConfig& backend) {
  RemoteOptions options;
  options.mode = mode_of(backend.mode);
  options.unix_path = backend.unix_path;
  // A standalone server has one place, a Cluster or Sentinels have several. open_remote_tier()
  // refuses options with both.
  if (options.mode != Mode::kStandalone) {
    for (const config::BackendHost& host : backend.hosts)
      options.endpoints.push_back({host.host, host.port});
  } else if (!backend.hosts.empty()) {
    options.host = backend.hosts.front().host;
    options.port = backend.hosts.front().port;
  }
  options.sentinel_master = backend.sentinel_master;
  options.sentinel_user = backend.sentinel_user;
  options.sentinel_password_file = backend.sentinel_password_file;
  options.tls = {backend.tls, backend.ca_file, backend.cert_file, backend.key_file,
                 backend.server_name};
  options.user = backend.user;
  options.password_file = backend.password_file;
  options.database = backend.database;
  if (!backend.prefix.empty()) options.prefix = backend.prefix;
  options.read_replicas = backend.read_replicas;
  options.ttl_ms = std::uint64_t{backend.ttl_s} * 1000;
  return options;
}

}  // namespace larder::remote
