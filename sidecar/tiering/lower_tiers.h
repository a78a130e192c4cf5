// LowerTiers: the tiers below the memory together, as the loop has them: what goes down to each, what comes up from any, and what a drop
// waits for. Nearest first. Owned by the loop's thread.
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
#include "sidecar/tiering/tier_link.h"
#include "sidecar/tiering/tier_probe.h"
#include "sidecar/tiering/tier_writer.h"

namespace larder::tiering {

// A tier that was opened, and the region that it tells what it has; of a disk it is the one that engines see.
struct OpenTier {
  std::unique_ptr<TierLink> link;
  std::shared_ptr<ResidencyFilter> region;  // shared with the tier, whose thread may outlive the loop
};

// One drop, in each tier. Shared between who asked, who may leave before the end, and the loop.
struct LowerTierDrop {
  struct Part {
    TierKind kind;
    std::string name;
    std::shared_future<Status> ended;
    std::shared_ptr<const std::uint64_t> chunks;  // that it found, once `ended` is ready
  };
  std::vector<Part> parts;  // none: there is no tier
};

// A drop that a tier has not answered.
struct PendingDrop {
  std::shared_future<Status> ended;  // shared: admin callers wait for the same
  bool shared = false;               // of a tier that others write to as well
};

class LowerTiers {
 public:
  // All of them outlive it. `arena`: the store's. REQUIRES: one tier at least, and no two of a kind.
  LowerTiers(std::vector<OpenTier> tiers, const config::Config& config, store::Store& store, stats::Stats& stats,
             const base::Clock& clock, std::span<std::byte> arena);

  Promoter& promotions() { return *promoter_; }
  // nullptr: no tier is shared.
  TierProbes* probes() { return tier_probes_.get(); }

  // The tier of this number has messages.
  void deliver(store::TierNumber number);
  bool go_on();
  void miss_deadlines();
  std::uint64_t next_deadline_ns() const;
  void end_session(store::SessionNumber session);
  void tick(bool slept);

  // Nothing of the namespace is found in any tier from here on.
  LowerTierDrop drop(const protocol::NamespaceId& id);
  // The newest drop, whoever asked for it.
  LowerTierDrop last_drop() const;
  // What the tiers have not answered of drops of it, or of everything.
  std::vector<PendingDrop> drops_under_way(const protocol::NamespaceId& id) const;

  // What is written to each from here on.
  void write_by(const config::Config& config);

  // At a stop: writes what is to be written, nearest tier first, until `by_ns` at the latest. Blocks.
  void finish(std::uint64_t by_ns);
  // Of the tiers, and of why they are not what they should be.
  void fill(stats::Stats& view) const;

 private:
  struct Tier {
    Tier(OpenTier open, const WriteRules& rules, store::Store& store, const base::Clock& clock, std::uint64_t arena_bytes)
        : link(std::move(open.link)),
          region(std::move(open.region)),
          write_down(*link, store, clock, rules, arena_bytes),
          source(*link, *region, clock) {}
    std::unique_ptr<TierLink> link;
    std::shared_ptr<ResidencyFilter> region;
    TierWriter write_down;
    ReadableTier source;
  };
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::unique_ptr<Promoter> promoter_;
  std::unique_ptr<TierProbes> tier_probes_;
};

}  // namespace larder::tiering
