#include "sidecar/tiers/remote/chunks/remote_tier.h"

#include <utility>

#include "sidecar/base/sizes.h"
#include "sidecar/tiers/key_text.h"
#include "sidecar/tiers/network_tier.h"
#include "sidecar/tiers/remote/chunks/remote_engine.h"

namespace larder::remote {
namespace {

using tiers::TierFront;

constexpr std::size_t kMostProbes = 16;  // at once: a probe has up to 1,024 commands
constexpr std::size_t kMostEndpoints = 32;

Status too_large(std::uint64_t slot_bytes, std::uint64_t most_bytes) {
  return {Code::kOutOfRange, "a chunk of " + base::mib(slot_bytes) +
                                 " is more than a backend is sent at once (" +
                                 base::mib(most_bytes) + "): set chunk_tokens smaller"};
}

constexpr TierFront::Words kWords{"the backend is closed",
                                  "too many operations on their way to and from the server",
                                  "too many to evict from the server at once", too_large};

Status wrong(const std::string& text) {
  return {Code::kInvalidArgument, text};
}

// Checks the endpoints of each mode.
// Every error names the field to change: the options may come from a file, a Secret or a URL.
Status check_endpoints(const RemoteOptions& options) {
  const bool sentinel = options.mode == Mode::kSentinel;
  if (!sentinel && !options.sentinel_master.empty())
    return wrong("backend.sentinel_master: the mode is not sentinel");
  if (!sentinel && (!options.sentinel_user.empty() || !options.sentinel_password_file.empty()))
    return wrong("backend.sentinel_password_file: the mode is not sentinel");
  if (options.mode == Mode::kStandalone) {
    if (!options.endpoints.empty())
      return wrong("backend.endpoints: a standalone server has backend.host or backend.unix_path");
    // Both or neither.
    if (options.host.empty() == options.unix_path.empty())
      return wrong("backend.host: a host or backend.unix_path, one of the two");
    return {};
  }
  if (!options.host.empty() || !options.unix_path.empty())
    return wrong(
        "backend.host: it is backend.endpoints that names Sentinels, or nodes of a Cluster");
  if (options.endpoints.empty() || options.endpoints.size() > kMostEndpoints)
    return wrong("backend.endpoints: 1 to 32 of them");
  for (const Endpoint& endpoint : options.endpoints)
    if (endpoint.host.empty() || endpoint.port == 0 || !endpoint.unix_path.empty())
      return wrong("backend.endpoints: each a host and a port");
  if (sentinel && options.sentinel_master.empty())
    return wrong("backend.sentinel_master: the name of the master is missing");
  if (!options.sentinel_user.empty() && options.sentinel_password_file.empty())
    return wrong("backend.sentinel_password_file: a user needs one");
  if (options.mode == Mode::kCluster && options.database != 0)
    return wrong("backend.database: a Cluster has none but 0");
  return {};
}

Status check_options(const RemoteOptions& options) {
  if (Status status = check_endpoints(options); !status.ok()) return status;
  if (options.unix_path.empty() && options.port == 0) return wrong("backend.port: 0 is none");
  if (!options.unix_path.empty()) {
    // A path of more than 107 bytes does not fit into sockaddr_un. connect() would fail much
    // later.
    if (const Result<Address> address = unix_address(options.unix_path); !address.ok())
      return wrong("backend." + address.status().text());
    if (options.tls.enabled && options.tls.server_name.empty())
      return wrong(
          "backend.server_name: over a Unix socket it must say whom the certificate names");
  }
  if (!tiers::valid_prefix(options.prefix))
    return wrong("backend.prefix: 1 to 127 letters, digits, \"_\", \".\" and \"-\"");
  if (options.connections < 1 || options.connections > Links::kMost)
    return wrong("backend.connections: 1 to 4");
  if (options.tls.cert_file.empty() != options.tls.key_file.empty())
    return wrong("backend.cert_file: with backend.key_file, or neither");
  if (!options.user.empty() && options.password_file.empty())
    // Without a password no AUTH is sent, so the user would be ignored silently.
    return wrong("backend.password_file: a user needs one");
  return {};
}

// Outlives the engine.
struct RemoteState {
  explicit RemoteState(const RemoteOptions& from)
      : options(from), known(options.known_chunks, options.residents.get()) {}
  const RemoteOptions options;
  KnownChunks known;
};

class RemoteTier final : RemoteState, public tiers::NetworkTier<RemoteEngine> {
 public:
  RemoteTier(const base::Clock& clock, const RemoteOptions& from)
      : RemoteState(from),
        NetworkTier(clock, "larder-remote",
                    {.bytes = options.accepted_bytes,
                     .operations = options.accepted_operations,
                     .probes = kMostProbes,
                     .drops = RemoteEngine::kMostDrops},
                    kWords, clock, options, known) {}

  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override {
    // From memory alone: a lookup must not wait for the network. The asynchronous probe() finds a
    // chunk of another larderd.
    const std::optional<Record> record = known.find(key, clock().now_ns());
    return record ? std::optional(record->facts) : std::nullopt;
  }
  using NetworkTier::probe;

 private:
  void hide(const tiers::Command& command) override {
    command.operation == tiers::Operation::kDrop ? known.hide(command.key.namespace_id)
                                                 : known.hide_all();
  }
};

}  // namespace

Result<std::unique_ptr<tiers::Tier>> open_remote_tier(const base::Clock& clock,
                                                      const RemoteOptions& options) {
  if (Status status = check_options(options); !status.ok()) return status;
  auto tier = std::make_unique<RemoteTier>(clock, options);
  if (Status status = tier->start(); !status.ok()) return status;
  return std::unique_ptr<tiers::Tier>(std::move(tier));
}

}  // namespace larder::remote
