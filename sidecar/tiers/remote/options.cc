#include "sidecar/tiers/remote/options.h"

#include "sidecar/config/config.h"

namespace larder::remote {

RemoteOptions options_of(const config::BackendConfig& backend) {
  RemoteOptions options;
  options.host = backend.host;
  options.port = backend.port;
  options.unix_path = backend.unix_path;
  options.tls = {backend.tls, backend.ca_file, backend.cert_file, backend.key_file, backend.server_name};
  options.user = backend.user;
  options.password_file = backend.password_file;
  options.database = backend.database;
  if (!backend.prefix.empty()) options.prefix = backend.prefix;
  options.ttl_ms = std::uint64_t{backend.ttl_s} * 1000;
  return options;
}

}  // namespace larder::remote
