#include "sidecar/tiers/peer/options.h"

#include <sys/random.h>

#include "sidecar/config/config.h"

namespace larder::peer {
namespace {

net::TlsOptions tls_of(const config::PeersConfig& peers) {
  return {.enabled = !peers.plaintext,
          .ca_file = peers.ca_file,
          .cert_file = peers.cert_file,
          .key_file = peers.key_file,
          .server_name = peers.server_name,
          // Both sides of a peer connection must be members of the pool: the certificate's name is
          // checked on each side.
          .strict = true,
          .section = "peers"};
}

}  // namespace

ClientOptions client_options_of(const config::Config& config, const Instance& self) {
  ClientOptions options;
  options.self = self;
  for (const config::BackendHost& host : config.peers.member_hosts)
    options.members.push_back({host.host, host.port});
  options.by_dns = config.peers.members_by_dns;
  options.fanout = config.peers.fanout;
  options.tls = tls_of(config.peers);
  return options;
}

ServerOptions server_options_of(const config::Config& config, const Instance& self) {
  ServerOptions options;
  options.self = self;
  options.listen = {config.peers.listen_host, config.peers.listen_port};
  options.tls = tls_of(config.peers);
  options.bytes_per_s = config.peers.serve_bytes_per_s;
  return options;
}

Instance make_instance(const std::string& pool, std::uint64_t epoch) {
  static constexpr char kDigits[] = "0123456789abcdef";
  // 64 random bits: two larderd of one pool with the same INSTANCE would take each other for
  // themselves.
  unsigned char bytes[8] = {};
  [[maybe_unused]] const ssize_t got =
      ::getrandom(bytes, sizeof(bytes), 0);  // never short for so few bytes
  Instance self{pool, {}, epoch};
  for (const unsigned char byte : bytes) {
    self.id += kDigits[byte >> 4];
    self.id += kDigits[byte & 15];
  }
  return self;
}

}  // namespace larder::peer
