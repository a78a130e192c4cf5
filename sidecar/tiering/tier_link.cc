#include "sidecar/tiering/tier_link.h"

#include <poll.h>
#include <sys/stat.h>

#include "shim/protocol/checksum.h"
#include "sidecar/tiers/disk/disk_tier.h"
#include "sidecar/tiers/peer/peer_tier.h"
#include "sidecar/tiers/plugin/plugin_tier.h"
#include "sidecar/tiers/remote/chunks/remote_tier.h"

namespace larder::tiering {
namespace {

// Never destroyed: a tier with a hanging device uses the Env until the process ends.
disk::Env& environment() {
  static disk::Env& env = *new disk::Env;
  return env;
}

}  // namespace

Result<std::unique_ptr<TierLink>> TierLink::open_disk(const config::Config& config,
                                                      std::span<std::byte> arena, bool present,
                                                      std::shared_ptr<tiers::Residents> residents,
                                                      const base::Clock& clock) {
  disk::DiskOptions options;
  options.path = config.disk.path;
  options.size_bytes = config.disk.size_bytes;
  // The name that a second larderd on this directory reports to its user.
  options.owner = "larderd of pool " + config.pool;
  options.ttl_s = config.disk.ttl_s;
  if (present) options.arena = arena;
  options.residents = std::move(residents);
  Result<std::unique_ptr<tiers::Tier>> tier = disk::open_disk_tier(environment(), clock, options);
  if (!tier.ok()) return tier.status();
  return std::make_unique<TierLink>(TierKind::kDisk, std::move(*tier), config.disk.path);
}

Result<std::unique_ptr<TierLink>> TierLink::open_backend(
    const config::Config& config, std::shared_ptr<tiers::Residents> residents,
    const base::Clock& clock) {
  const auto open = [&]() -> Result<std::unique_ptr<tiers::Tier>> {
    if (!config.backend.plugin.empty()) {
      plugin::PluginOptions options = plugin::options_of(config);
      options.residents = std::move(residents);
      return plugin::open_plugin_tier(clock, options);
    }
    remote::RemoteOptions options = remote::options_of(config.backend);
    options.residents = std::move(residents);
    return remote::open_remote_tier(clock, options);
  };
  Result<std::unique_ptr<tiers::Tier>> tier = open();
  if (!tier.ok()) return tier.status();
  // The place appears in status and log lines, so the user of
  // the URL stays out.
  return std::make_unique<TierLink>(TierKind::kBackend, std::move(*tier),
                                    config::without_user(config.backend.url));
}

Result<std::unique_ptr<TierLink>> TierLink::open_peers(const config::Config& config,
                                                       const peer::Instance& self,
                                                       std::shared_ptr<tiers::Residents> residents,
                                                       const base::Clock& clock) {
  peer::ClientOptions options = peer::client_options_of(config, self);
  options.residents = std::move(residents);
  Result<std::unique_ptr<tiers::Tier>> tier = peer::open_peer_tier(clock, options);
  if (!tier.ok()) return tier.status();
  return std::make_unique<TierLink>(TierKind::kPeers, std::move(*tier), config.peers.members);
}

std::string TierLink::name() const {
  switch (kind_) {
    case TierKind::kDisk: return "disk";
    case TierKind::kPeers: return "peers";
    case TierKind::kBackend: break;
  }
  return "backend";
}

// A disk is identified by its file: the lock of the file lasts until all requests have ended, even
// after the end of the process (tiers/disk/FORMAT.md). Bytes from a socket are written by this
// process alone, and end with it.
std::uint64_t TierLink::id() const {
  if (kind_ != TierKind::kDisk) return 1;
  struct stat file {};
  if (::stat((place_ + "/larder/chunks").c_str(), &file) != 0) return 0;
  const std::uint64_t words[] = {file.st_dev, file.st_ino};
  return XXH3_64bits(words, sizeof(words));
}

void TierLink::deliver() {
  messages_.clear();
  tier_->take_messages(messages_);
  for (const tiers::Message& message : messages_)
    // A destroyed writer has removed its receivers; late messages to it are dropped.
    if (const Answer& answer = answers_[static_cast<std::size_t>(message.operation)]; answer)
      answer(message);
}

void TierLink::wait(int timeout_ms) {
  // Tests pass a wait of their own, since a tier without a thread needs turns.
  pollfd polled{tier_->message_fd(), POLLIN, 0};
  wait_ ? wait_(timeout_ms) : static_cast<void>(::poll(&polled, 1, timeout_ms));
  deliver();
}

void TierLink::fill(stats::TierStats& stats) const {
  // Copies, each under one lock: the figures of one scrape belong together.
  const tiers::TierState state = tier_->state();
  const tiers::TierCounters counters = tier_->counters();
  stats.place = place_;
  stats.mode = state.mode;
  stats.takes_puts = state.takes_puts;
  stats.takes_gets = state.takes_gets;
  stats.reason = state.reason;
  stats.servers = state.servers;
  stats.servers_reachable = state.servers_reachable;
  stats.capacity_bytes = counters.capacity_bytes;
  stats.used_bytes = counters.used_bytes;
  stats.chunks = counters.chunks;
  stats.in_flight_bytes = counters.in_flight_bytes;
  stats.puts = counters.puts;
  stats.put_bytes = counters.put_bytes;
  stats.puts_failed = counters.puts_failed;
  stats.gets = counters.gets;
  stats.get_bytes = counters.get_bytes;
  stats.gets_missed = counters.gets_missed;
  stats.gets_failed = counters.gets_failed;
  stats.refused = counters.refused;
  stats.deadlines_missed = counters.deadlines_missed;
  stats.records_corrupt = counters.records_corrupt;
  stats.evicted_capacity = counters.chunks_evicted;
  stats.evicted_dropped = counters.chunks_dropped;
  stats.evicted_expired = counters.chunks_expired;
  stats.written_bytes = counters.written_bytes;
  stats.read_bytes = counters.read_bytes;
  stats.read_window_bytes = counters.read_window_bytes;
  stats.write_window_bytes = counters.write_window_bytes;
  stats.times_degraded = counters.times_degraded;
}

}  // namespace larder::tiering
