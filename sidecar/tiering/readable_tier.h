// ReadableTier: a tier as a source of reads: its content, its speed, and the reads that measure the
// speed. Owned by the thread of the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "sidecar/base/clock.h"
#include "sidecar/tiering/residency_filter.h"
#include "sidecar/tiering/tier_link.h"
#include "sidecar/tiering/tier_speed.h"

namespace larder::tiering {

class ReadableTier {
 public:
  // All arguments outlive this object. `region` publishes the speed, and names recent chunks of the
  // tier.
  ReadableTier(TierLink& link, ResidencyFilter& region, const base::Clock& clock);

  // Chunks of a namespace are not read while `hidden` returns true: a drop of the namespace waits
  // for the tier.
  using Hidden = std::function<bool(const protocol::NamespaceId&)>;
  void set_hidden(Hidden hidden) { hidden_ = std::move(hidden); }
  bool hides(const protocol::NamespaceId& id) const { return hidden_ && hidden_(id); }
  // The chunk as the tier knows it; empty for a hidden namespace.
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& chunk) const;

  store::TierNumber number() const { return link_.number(); }
  // See TierLink.
  bool shared() const { return link_.shared(); }
  bool read_only() const { return link_.read_only(); }
  // Reads of one lane wait for no read of another lane. lane_of() is below lanes().
  std::uint32_t lanes() const { return link_.many() ? tiers::kMaxDevices : 1; }
  std::uint32_t lane_of(const tiers::ChunkKey& chunk) const {
    return link_.many() ? link_.tier().device(chunk) % tiers::kMaxDevices : 0;
  }
  // An accepted read counts as running until read_ended().
  tiers::Ticket next_ticket() { return link_.next_ticket(); }
  Status read(tiers::Ticket ticket, const tiers::ChunkKey& chunk, std::span<std::byte> slot,
              std::uint64_t deadline_ns);
  void read_ended(std::uint64_t bytes, bool ok, std::uint64_t begun_ns) {
    const std::uint64_t now_ns = clock_.now_ns();
    speed_.ended(now_ns, bytes, ok, begun_ns);
    if (ok) read_time_.record(now_ns - begun_ns);
  }
  const stats::Histogram& read_time() const { return read_time_; }
  // The deadline of a fetch passed while the fetch waits for reads.
  void missed_deadline(std::uint64_t now_ns);

  // Whether engines may rely on the tier, as of the last tick.
  bool in_time() const { return speed_.view(takes_gets_).serving; }
  protocol::ResidencySpeed speed() const { return speed_.view(link_.tier().state().takes_gets); }

  // Starts a probe read if due, and publishes the speed.
  void tick();
  // Takes a message of a get. False: the message belongs to no probe read.
  bool on_probe(const tiers::Message& message);

 private:
  void probe_speed();
  void publish();

  TierLink& link_;
  ResidencyFilter& region_;
  const base::Clock& clock_;
  Hidden hidden_;
  TierSpeed speed_;
  stats::Histogram read_time_;
  // The last state of the tier: a question for every chunk would cost a mutex each.
  bool takes_gets_ = true;
  struct Probe {
    tiers::Ticket ticket = 0;
    std::uint64_t bytes = 0, begun_ns = 0;
  };
  std::optional<Probe> probe_;  // until the device has released the probe memory of region_
};

// The place of a chunk.
struct Found {
  ReadableTier* source = nullptr;
  tiers::ChunkFacts facts;
};

}  // namespace larder::tiering
