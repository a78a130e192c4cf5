// Sidecar::start(): makes the regions and the socket, in an order that leaves no file behind after
// an error.
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "sidecar/base/descriptor_limit.h"
#include "sidecar/base/log.h"
#include "sidecar/loop/event_loop.h"
#include "sidecar/loop/wakeups.h"
#include "sidecar/session/listener.h"
#include "sidecar/tiering/chunk_age.h"

namespace larder::loop {
namespace {

constexpr long kTickNs = 100'000'000;

// A used entry costs 68 bytes, an unused entry 16 bytes in the hash table. A small arena gets
// entries for small slots, as small models need.
constexpr std::uint64_t kFineEntries = 1 << 18;

std::uint64_t entries_for(std::uint64_t arena_bytes) {
  // A tiny arena of a test cannot have more entries than slots of the smallest size.
  const std::uint64_t finest = std::max<std::uint64_t>(arena_bytes / protocol::kSlotAlignBytes, 1);
  return std::max(arena_bytes / memory::kSmallestUsualSlot, std::min(finest, kFineEntries));
}

store::IndexShape shape_for(std::uint64_t arena_bytes, std::uint64_t old_generation) {
  store::IndexShape shape{};
  shape.entry_count = entries_for(arena_bytes);
  shape.bucket_count = store::IndexShape::buckets_for(shape.entry_count);
  shape.arena_bytes = arena_bytes;
  // The files of an earlier instance may be gone: the clock gives a higher generation than any
  // earlier instance gave.
  shape.first_generation = std::max(tiering::ChunkAge::unix_ns() / tiering::kNsAGeneration,
                                    old_generation + 1);  // mutation: generations-grow
  // Strictly larger than the epoch of every earlier instance. Engines and lock files compare epochs
  // to tell instances apart.
  shape.epoch = shape.first_generation;
  return shape;
}

Status make_wakeups(LoopParts& parts) {
  parts.epoll = Fd(::epoll_create1(EPOLL_CLOEXEC));
  parts.timer = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  parts.wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!parts.epoll.valid() || !parts.timer.valid() || !parts.wake.valid())
    return Status::from_errno(errno, "epoll, timerfd or eventfd");
  // CLOCK_MONOTONIC: a changed wall clock neither stops nor doubles the ticks.
  const itimerspec every_tick{{0, kTickNs}, {0, kTickNs}};
  if (::timerfd_settime(parts.timer.get(), 0, &every_tick, nullptr) != 0)
    return Status::from_errno(errno, "timerfd_settime");
  if (Status status = watch(parts.epoll, parts.listener, {WakeupSource::kListener}); !status.ok())
    return status;
  if (Status status = watch(parts.epoll, parts.timer, {WakeupSource::kTimer}); !status.ok())
    return status;
  for (tiering::OpenTier& tier : parts.tiers)
    if (Status status = watch(parts.epoll, tier.link->tier().message_fd(),
                              {WakeupSource::kTier, tier.link->number()});
        !status.ok())
      return status;
  if (parts.peer_server)
    if (Status status =
            watch(parts.epoll, parts.peer_server->exchange().request_fd(), {WakeupSource::kPeers});
        !status.ok())
      return status;
  return watch(parts.epoll, parts.wake, {WakeupSource::kControl});
}

// Opens the arena of the previous instance, or makes a new arena. Returns the highest generation of
// all earlier instances.
Result<std::uint64_t> make_arena(LoopParts& parts) {
  const config::MemoryConfig& memory = parts.config.memory;
  memory::PreviousInstance& earlier = parts.earlier;
  if (earlier.index) {
    Result<memory::ArenaFile> arena =
        memory::open_arena(memory, *earlier.arena, earlier.index->touched_bytes());
    if (!arena.ok()) return arena.status();
    parts.arena = std::move(*arena);
    // After the arena is open: an error above leaves everything for the next try.
    if (Status status = memory::remove_leftovers(memory, earlier); !status.ok()) return status;
    return earlier.index->last_generation();
  }
  earlier = {};
  // The old indexes are marked as dead before their removal, so engines of the earlier larderd
  // attach again.
  const Result<std::uint64_t> old_generation = memory::remove_old_files(memory);
  if (!old_generation.ok()) return old_generation.status();
  Result<memory::ArenaFile> arena =
      memory::create_arena(memory, shape_for(memory.size_bytes, 0).bytes());
  if (!arena.ok()) return arena.status();
  parts.arena = std::move(*arena);
  return *old_generation;
}

Status make_disk(LoopParts& parts, const base::Clock& clock) {
  // A registration of the arena with the kernel makes every page present first, and would hold up
  // the start (tier_link.h).
  const bool present =
      parts.earlier.index && parts.earlier.index->touched_bytes() >= parts.arena.mapping.size();
  Result<std::unique_ptr<tiering::TierLink>> link = tiering::TierLink::open_disk(
      parts.config, {parts.arena.mapping.data(), parts.arena.mapping.size()}, present,
      parts.residency_filter, clock);
  if (!link.ok()) return link.status();
  parts.tiers.push_back({std::move(*link), parts.residency_filter});
  return {};
}

// `open`: opens the tier, given the residency filter.
template <typename Open>
Status make_shared_tier(LoopParts& parts, const Open& open) {
  // A filter of size 0: engines do not see it, because other larderd write to the tier too. larderd
  // uses it to find recent chunks, which it reads to measure the speed of the tier.
  Result<std::shared_ptr<tiering::ResidencyFilter>> region = tiering::ResidencyFilter::create(0);
  if (!region.ok()) return region.status();
  Result<std::unique_ptr<tiering::TierLink>> link = open(*region);
  if (!link.ok()) return link.status();
  parts.tiers.push_back({std::move(*link), std::move(*region)});
  return {};
}

Status make_backend(LoopParts& parts, const base::Clock& clock) {
  return make_shared_tier(parts, [&](const std::shared_ptr<tiering::ResidencyFilter>& region) {
    return tiering::TierLink::open_backend(parts.config, region, clock);
  });
}

// Both halves of the peers: the server, and the tier that asks.
Status make_peers(LoopParts& parts, const base::Clock& clock) {
  // Peers recognise themselves in a list of members by this identity.
  const peer::Instance self = peer::make_instance(parts.config.pool, parts.shape.epoch);
  if (!parts.config.peers.listen.empty()) {
    Result<std::unique_ptr<peer::PeerServer>> server =
        tiering::open_peer_server(parts.config, self, clock);
    if (!server.ok()) return server.status();
    parts.peer_server = *std::move(server);
  }
  if (parts.config.peers.members.empty()) return {};
  return make_shared_tier(parts, [&](const std::shared_ptr<tiering::ResidencyFilter>& region) {
    return tiering::TierLink::open_peers(parts.config, self, region, clock);
  });
}

// Without a disk, engines get an empty residency filter.
Status make_below(LoopParts& parts, const base::Clock& clock) {
  const bool disk = !parts.config.disk.path.empty(), backend = !parts.config.backend.url.empty();
  const bool peers = !parts.config.peers.members.empty();
  if (!disk && !backend && !peers) return make_peers(parts, clock);
  Result<std::shared_ptr<tiering::ResidencyFilter>> region =
      tiering::ResidencyFilter::create(disk ? parts.config.disk.size_bytes : 0);
  if (!region.ok()) return region.status();
  parts.residency_filter = std::move(*region);
  if (disk)
    if (Status status = make_disk(parts, clock); !status.ok()) return status;
  if (Status status = make_peers(parts, clock); !status.ok()) return status;
  if (backend)
    if (Status status = make_backend(parts, clock); !status.ok()) return status;
  parts.shape.tier = parts.tiers.front().link->id();  // mutation: own-tier-open
  return {};
}

// Makes index, journal, lower tiers, socket and wakeups. After an error the caller removes the
// files.
Status make_rest(LoopParts& parts, std::uint64_t old_generation, const base::Clock& clock) {
  parts.shape = shape_for(parts.arena.mapping.size(), old_generation);
  Result<memory::IndexFile> index = memory::IndexFile::create(
      memory::fresh_index_path(parts.config.memory, parts.shape.epoch),  // mutation: fresh-index
      parts.shape.bytes());
  if (!index.ok()) return index.status();
  parts.index = std::move(*index);
  Result<memory::NamespaceJournal> names = memory::NamespaceJournal::create(
      memory::namespaces_path(parts.config.memory, parts.shape.epoch));
  if (!names.ok()) return names.status();
  parts.names = std::move(*names);
  // The tiers come before the socket: an engine that attaches finds the complete cache.
  if (Status status = make_below(parts, clock); !status.ok()) return status;
  Result<Fd> listener = session::listen_at(parts.config.socket, parts.config.socket_mode);
  if (!listener.ok()) return listener.status();
  parts.listener = std::move(*listener);
  return make_wakeups(parts);
}

}  // namespace

Result<std::unique_ptr<Sidecar>> Sidecar::start(const config::Config& config,
                                                const base::Clock& clock,
                                                std::uint64_t grant_age_ms) {
  // A session takes three descriptors: the usual soft limit of 1,024 is too low for kMaxSessions.
  base::raise_descriptor_limit(8 * protocol::kMaxSessions);
  LoopParts parts;
  parts.config = config;
  parts.grant_age_ms = grant_age_ms;
  // The lock comes first. Two larderd of one name would otherwise remove each other's files.
  Result<memory::InstanceLock> owner = memory::lock_instance(config.memory);
  if (!owner.ok()) return owner.status();
  parts.owner = std::move(*owner);
  Result<memory::PreviousInstance> earlier =
      memory::find_previous_instance(config.memory, shape_for(config.memory.size_bytes, 0).bytes());
  if (!earlier.ok()) return earlier.status();
  parts.earlier = std::move(*earlier);
  const Result<std::uint64_t> old_generation = make_arena(parts);
  if (!old_generation.ok()) return old_generation.status();
  if (Status status = make_rest(parts, *old_generation, clock); !status.ok()) {
    ::unlink(parts.index.path.c_str());
    ::unlink(parts.names.path().c_str());
    // The arena of a previous instance stays: the next start may still be warm.
    if (!parts.earlier.index) ::unlink(parts.arena.path.c_str());
    return status;
  }
  // From here on the destructor of EventLoop removes or leaves the files.
  auto loop = std::make_unique<EventLoop>(std::move(parts), clock);
  if (Status status = loop->publish_index(); !status.ok()) return status;
  return std::unique_ptr<Sidecar>(std::move(loop));
}

Status Sidecar::free_memory(const config::Config& config) {
  const Result<memory::InstanceLock> owner = memory::lock_instance(config.memory);
  return owner.ok() ? memory::remove_old_files(config.memory).status() : owner.status();
}

}  // namespace larder::loop
