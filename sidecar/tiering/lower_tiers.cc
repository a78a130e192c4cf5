#include "sidecar/tiering/lower_tiers.h"

#include <algorithm>
#include <utility>

namespace larder::tiering {

using tiers::Message;
using tiers::Operation;

namespace {

WriteRules rules_of(const TierLink& link, const config::Config& config) {
  return link.kind() == TierKind::kDisk ? rules_for(config.disk) : rules_for(config.backend);
}

// Metrics and status have fixed sections, whichever tiers are configured.
stats::TierStats& stats_of(const TierLink& link, stats::Stats& view) {
  switch (link.kind()) {
    case TierKind::kDisk: return view.disk;
    case TierKind::kPeers: return view.peers;
    case TierKind::kBackend: break;
  }
  return view.backend;
}

}  // namespace

LowerTiers::LowerTiers(std::vector<OpenTier> tiers, const config::Config& config,
                       store::Store& store, stats::Stats& stats, const base::Clock& clock,
                       std::span<std::byte> arena) {
  std::vector<ReadableTier*> sources;
  std::vector<SharedTier> shared;
  for (OpenTier& open : tiers) {
    const WriteRules rules = rules_of(*open.link, config);
    // Behind a unique_ptr: the parts of a tier refer to each other, so a Tier must not move.
    Tier* tier = tiers_
                     .emplace_back(
                         std::make_unique<Tier>(std::move(open), rules, store, clock, arena.size()))
                     .get();
    if (tier->writer)
      // The tier itself hides a namespace from the moment it has the drop. Only the writer knows a
      // drop before the tier has room.
      tier->source.set_hidden(
          [tier](const protocol::NamespaceId& id) { return tier->writer->waits_for_drop(id); });
    sources.push_back(&tier->source);
    if (tier->link->shared()) shared.push_back({tier->link.get(), &tier->source});
  }
  // One promoter over all tiers: a chunk is read once, even if several tiers have it.
  promoter_ = std::make_unique<Promoter>(sources, store, stats, clock, arena);
  if (!shared.empty())
    tier_probes_ = std::make_unique<TierProbes>(shared, sources, *promoter_, store, stats, clock);
  for (const auto& tier : tiers_) {
    tier->link->answer_to(Operation::kGet,
                          [this](const Message& message) { promoter_->on_get(message); });
    if (tier->link->shared())
      tier->link->answer_to(Operation::kProbe,
                            [this](const Message& message) { tier_probes_->on_probe(message); });
  }
}

void LowerTiers::deliver(store::TierNumber number) {
  for (const auto& tier : tiers_) {
    if (tier->link->number() != number) continue;
    tier->link->deliver();
    // A message often means room for the next put: waiting for the tick would leave the tier idle.
    if (tier->writer) tier->writer->pump();
  }
}

bool LowerTiers::go_on() {
  // Called first: an `||` of the two calls would skip the probes as long as a fetch has work.
  const bool promoted = promoter_->go_on();
  return (tier_probes_ && tier_probes_->go_on()) || promoted;
}

void LowerTiers::miss_deadlines() {
  promoter_->miss_deadlines();
  if (tier_probes_) tier_probes_->miss_deadlines();
}

std::uint64_t LowerTiers::next_deadline_ns() const {
  return std::min(promoter_->next_deadline_ns(),
                  tier_probes_ ? tier_probes_->next_deadline_ns() : UINT64_MAX);
}

void LowerTiers::end_session(store::SessionNumber session) {
  promoter_->end_session(session);
  if (tier_probes_) tier_probes_->end_session(session);
}

void LowerTiers::write_by(const config::Config& config) {
  for (const auto& tier : tiers_)
    if (tier->writer) tier->writer->write_by(rules_of(*tier->link, config));
}

void LowerTiers::tick(bool slept) {
  for (const auto& tier : tiers_)
    if (tier->writer) tier->writer->tick();
  promoter_->tick(slept);
  if (tier_probes_) tier_probes_->tick();
}

// To every tier before the first chunk leaves memory: a chunk must not be promoted from a lower
// tier while memory is emptied.
LowerTierDrop LowerTiers::drop(const protocol::NamespaceId& id) {
  for (const auto& tier : tiers_)
    if (tier->writer)
      tier->writer->drop(id);
    else
      tier->forgetter->drop(id);
  return last_drop();
}

LowerTierDrop LowerTiers::last_drop() const {
  LowerTierDrop drop;
  for (const auto& tier : tiers_)
    if (tier->writer)
      drop.parts.push_back({tier->link->kind(), tier->link->name(), tier->writer->last_drop(),
                            tier->writer->last_drop_chunks()});
  return drop;
}

// The engine hears that its drop is done once a death of larderd cannot undo the drop. The caller
// bounds the wait for a shared tier to one second.
std::vector<PendingDrop> LowerTiers::drops_under_way(const protocol::NamespaceId& id) const {
  std::vector<PendingDrop> drops;
  for (const auto& tier : tiers_) {
    if (!tier->writer) continue;
    if (std::shared_future<Status> drop = tier->writer->drop_under_way(id); drop.valid())
      drops.push_back({std::move(drop), tier->link->shared()});
  }
  return drops;
}

void LowerTiers::finish(std::uint64_t by_ns) {
  for (const auto& tier : tiers_) {
    if (tier->writer)
      tier->writer->finish(by_ns);
    else
      // Nothing to write to a tier that is only read.
      tier->link->tier().close(0);
  }
}

void LowerTiers::fill(stats::Stats& view) const {
  for (const auto& tier : tiers_) {
    stats::TierStats& stats = stats_of(*tier->link, view);
    tier->link->fill(stats);
    if (tier->writer) tier->writer->fill(stats);
    stats.get_time = tier->source.read_time();
    const protocol::ResidencySpeed speed = tier->source.speed();
    stats.serving = speed.serving;
    stats.read_latency_ns = speed.read_latency_ns;
    stats.read_bytes_per_s = speed.read_bytes_per_s;
    // A fault of the tier comes first: without the tier the size of chunks does not matter.
    if (stats.reason.empty()) stats.reason = promoter_->too_large();
    if (!stats.reason.empty()) view.fallbacks.push_back({tier->link->name(), stats.reason});
  }
}

}  // namespace larder::tiering
