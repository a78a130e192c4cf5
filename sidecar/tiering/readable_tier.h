// ReadableTier: a tier as what is read from: what it has, how fast it is, and the reads by which larderd knows that. Owned by the loop's thread.
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
  // All of them outlive it. `region` is told how fast it is, and tells what came into the tier last.
  ReadableTier(TierLink& link, ResidencyFilter& region, const base::Clock& clock);

  // Of the namespaces that it says true of nothing is read, though the tier has it: a drop of them is on its way there.
  using Hidden = std::function<bool(const protocol::NamespaceId&)>;
  void set_hidden(Hidden hidden) { hidden_ = std::move(hidden); }
  bool hides(const protocol::NamespaceId& id) const { return hidden_ && hidden_(id); }
  // As the tier says, but for those.
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& chunk) const;

  store::TierNumber number() const { return link_.number(); }
  // A read that is taken counts from now on, until read_ended().
  tiers::Ticket next_ticket() { return link_.next_ticket(); }
  Status read(tiers::Ticket ticket, const tiers::ChunkKey& chunk, std::span<std::byte> slot, std::uint64_t deadline_ns);
  void read_ended(std::uint64_t bytes, bool ok, std::uint64_t begun_ns) {
    const std::uint64_t now_ns = clock_.now_ns();
    speed_.ended(now_ns, bytes, ok);
    if (ok) read_time_.record(now_ns - begun_ns);
  }
  const stats::Histogram& read_time() const { return read_time_; }
  // A fetch waits for reads, and its deadline is over.
  void missed_deadline(std::uint64_t now_ns);

  // Whether engines may rely on it, as of the last tick.
  bool in_time() const { return speed_.view(takes_gets_).serving; }
  protocol::ResidencySpeed speed() const { return speed_.view(link_.tier().state().takes_gets); }

  // Probes, where that is due, and tells how fast it is.
  void tick();
  // A message of a get. False: it is of no probe.
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
  bool takes_gets_ = true;  // as the tier said last: to ask it of every chunk would cost a mutex each
  struct Probe {
    tiers::Ticket ticket = 0;
    std::uint64_t bytes = 0, begun_ns = 0;
  };
  std::optional<Probe> probe_;  // until the device has let go of its memory, which is region_'s
};

// Where a chunk is.
struct Found {
  ReadableTier* source = nullptr;
  tiers::ChunkFacts facts;
};

}  // namespace larder::tiering
