// TiersBelow: the tiers below the memory together, as the loop has them: what goes down to each, what comes up from any, and what a drop
// waits for. Nearest first. Owned by the loop's thread.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sidecar/ipc/below_region.h"
#include "sidecar/ipc/looks.h"
#include "sidecar/ipc/promotions.h"
#include "sidecar/ipc/read_source.h"
#include "sidecar/ipc/tier_link.h"
#include "sidecar/ipc/write_down.h"

namespace larder::ipc {

// A tier that was opened, and the region that it tells what it has; of a disk it is the one that engines see.
struct OpenTier {
  std::unique_ptr<TierLink> link;
  std::shared_ptr<BelowRegion> region;  // shared with the tier, whose thread may outlive the loop
};

// One drop, in each tier. Shared between who asked, who may leave before the end, and the loop.
struct DropBelow {
  struct Part {
    TierKind kind;
    std::string name;
    std::shared_future<Status> ended;
    std::shared_ptr<const std::uint64_t> chunks;  // that it found, once `ended` is ready
  };
  std::vector<Part> parts;  // none: there is no tier
};

// A drop that a tier has not answered.
struct DropUnderWay {
  std::shared_future<Status> ended;  // shared: admin callers wait for the same
  bool shared = false;               // of a tier that others write to as well
};

class TiersBelow {
 public:
  // All of them outlive it. `arena`: the store's. REQUIRES: one tier at least, and no two of a kind.
  TiersBelow(std::vector<OpenTier> tiers, const config::Config& config, store::Store& store, stats::Stats& stats,
             const base::Clock& clock, std::span<std::byte> arena);

  Promotions& promotions() { return *promotions_; }
  // nullptr: no tier is shared.
  Looks* looks() { return looks_.get(); }

  // The tier of this number has messages.
  void deliver(store::TierNumber number);
  bool go_on();
  void miss_deadlines();
  std::uint64_t next_deadline_ns() const;
  void end_session(store::SessionNumber session);
  void tick(bool slept);

  // Nothing of the namespace is found in any tier from here on.
  DropBelow drop(const protocol::NamespaceId& id);
  // The newest drop, whoever asked for it.
  DropBelow last_drop() const;
  // What the tiers have not answered of drops of it, or of everything.
  std::vector<DropUnderWay> drops_under_way(const protocol::NamespaceId& id) const;

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
    std::shared_ptr<BelowRegion> region;
    WriteDown write_down;
    ReadSource source;
  };
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::unique_ptr<Promotions> promotions_;
  std::unique_ptr<Looks> looks_;
};

}  // namespace larder::ipc
