#include "sidecar/tiering/readable_tier.h"

namespace larder::tiering {
namespace {

// Memory of a probe read comes from the heap: a slot of the arena would displace a chunk for a
// measurement.
constexpr std::uint64_t kMostProbeBytes = 64ULL << 20;
constexpr std::uint64_t kProbeMs = 5000;

}  // namespace

ReadableTier::ReadableTier(TierLink& link, ResidencyFilter& region, const base::Clock& clock)
    : link_(link), region_(region), clock_(clock), speed_(link.many()) {
  publish();
}

std::optional<tiers::ChunkFacts> ReadableTier::probe(const tiers::ChunkKey& chunk) const {
  if (hides(chunk.namespace_id)) return std::nullopt;
  return link_.tier().probe(chunk);
}

Status ReadableTier::read(tiers::Ticket ticket, const tiers::ChunkKey& chunk,
                          std::span<std::byte> slot, std::uint64_t deadline_ns) {
  Status status = link_.tier().get(ticket, chunk, slot, deadline_ns);
  if (status.ok()) speed_.began(clock_.now_ns(), slot.size());
  // Engines read `serving` from shared memory. They should learn of a lost tier now, and not at
  // the next tick.
  if (status.code() == Code::kUnavailable) publish();
  return status;
}

void ReadableTier::publish() {
  takes_gets_ = link_.tier().state().takes_gets;
  region_.publish(speed_.view(takes_gets_));
}

void ReadableTier::missed_deadline(std::uint64_t now_ns) {
  speed_.missed_deadline(now_ns);
  publish();
}

void ReadableTier::tick() {
  if (!probe_ && speed_.wants_probe(clock_.now_ms())) probe_speed();
  publish();
}

// Reads a chunk as a fetch would, and discards the bytes.
void ReadableTier::probe_speed() {
  // A recent chunk most likely still exists.
  const std::optional<tiers::ChunkKey> key = region_.recent();
  const std::optional<tiers::ChunkFacts> facts = key ? link_.tier().probe(*key) : std::nullopt;
  const std::uint64_t bytes = facts ? facts->slot_bytes() : 0;
  if (bytes == 0 || bytes > kMostProbeBytes)
    return speed_.probe_ended(clock_.now_ms(), 0, 0, false);
  const Probe probe{next_ticket(), bytes, clock_.now_ns()};
  const std::span<std::byte> memory = region_.probe_memory(bytes);
  // A failed start counts as "no chunk": the probe comes again after the first pause.
  if (memory.empty() ||
      !read(probe.ticket, *key, memory, probe.begun_ns + kProbeMs * 1'000'000).ok())
    return speed_.probe_ended(clock_.now_ms(), 0, 0, false);
  probe_ = probe;
}

bool ReadableTier::on_probe(const tiers::Message& message) {
  if (!probe_ || message.ticket != probe_->ticket) return false;
  const std::uint64_t now_ns = clock_.now_ns();
  if (message.kind == tiers::Message::Kind::kDone) {
    // A missing chunk says nothing about the speed.
    const bool there = message.status.code() != Code::kNotFound;
    speed_.ended(now_ns, probe_->bytes, message.status.ok(), probe_->begun_ns);
    speed_.probe_ended(now_ns / 1'000'000, there ? probe_->bytes : 0, now_ns - probe_->begun_ns,
                       message.status.ok());
    publish();
  }
  // Until then a late device may write into the memory of the probe.
  if (message.kind == tiers::Message::Kind::kReleased || !message.slot_busy) probe_.reset();
  return true;
}

}  // namespace larder::tiering
