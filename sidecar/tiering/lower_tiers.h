// LowerTiers: all lower tiers together, nearest first: writes, promotions, and the state of drops.
// Owned by the thread of the loop.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sidecar/tiering/promoter.h"
#include "sidecar/tiering/readable_tier.h"
#include "sidecar/tiering/residency_filter.h"
#include "sidecar/tiering/tier_forgetter.h"
#include "sidecar/tiering/tier_link.h"
#include "sidecar/tiering/tier_probe.h"
#include "sidecar/tiering/tier_writer.h"

namespace larder::tiering {

// An open tier and its residency filter. Engines see the filter of the disk.
struct OpenTier {
  std::unique_ptr<TierLink> link;
  // Shared with the tier, whose thread may outlive the loop.
  std::shared_ptr<ResidencyFilter> region;
};

// One drop in all tiers. Shared between the loop and the caller, who may leave before the end.
struct LowerTierDrop {
  struct Part {
    TierKind kind;
    std::string name;
    std::shared_future<Status> ended;
    std::shared_ptr<const std::uint64_t> chunks;  // the dropped chunks, valid once `ended` is ready
  };
  std::vector<Part> parts;  // empty without a lower tier
};

// A drop without an answer of the tier.
struct PendingDrop {
  std::shared_future<Status> ended;  // shared: admin callers wait for the same
  bool shared = false;               // the tier is shared with other larderd
};

class LowerTiers {
 public:
  // All arguments outlive this object. `arena`: the arena of the store. REQUIRES: one tier at
  // least, and no two of a kind.
  LowerTiers(std::vector<OpenTier> tiers, const config::Config& config, store::Store& store,
             stats::Stats& stats, const base::Clock& clock, std::span<std::byte> arena);

  Promoter& promotions() { return *promoter_; }
  // nullptr without a shared tier.
  TierProbes* probes() { return tier_probes_.get(); }

  // The tier of this number has messages.
  void deliver(store::TierNumber number);
  bool go_on();
  void miss_deadlines();
  std::uint64_t next_deadline_ns() const;
  void end_session(store::SessionNumber session);
  void tick(bool slept);

  // Drops a namespace: no tier finds a chunk of it from here on.
  LowerTierDrop drop(const protocol::NamespaceId& id);
  // The newest drop.
  LowerTierDrop last_drop() const;
  // The drops of the namespace, or of everything, without an answer of the tiers.
  std::vector<PendingDrop> drops_under_way(const protocol::NamespaceId& id) const;

  // Changes the write rules of all tiers.
  void write_by(const config::Config& config);

  // At a stop: writes the pending chunks, nearest tier first, until `by_ns` at the latest. Blocks.
  void finish(std::uint64_t by_ns);
  // Fills in the statistics of the tiers, and fallbacks for degraded tiers.
  void fill(stats::Stats& view) const;

 private:
  struct Tier {
    Tier(OpenTier open, const WriteRules& rules, store::Store& store, const base::Clock& clock,
         std::uint64_t arena_bytes)
        : link(std::move(open.link)),
          region(std::move(open.region)),
          writer(link->read_only()
                     ? nullptr
                     : std::make_unique<TierWriter>(*link, store, clock, rules, arena_bytes)),
          forgetter(writer ? nullptr : std::make_unique<TierForgetter>(*link, store, clock)),
          source(*link, *region, clock) {}
    std::unique_ptr<TierLink> link;
    std::shared_ptr<ResidencyFilter> region;
    std::unique_ptr<TierWriter> writer;        // null for a tier that is only read
    std::unique_ptr<TierForgetter> forgetter;  // null for a tier with a writer
    ReadableTier source;
  };
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::unique_ptr<Promoter> promoter_;
  std::unique_ptr<TierProbes> tier_probes_;
};

}  // namespace larder::tiering
