#include "sidecar/ipc/tiers_below.h"

#include <algorithm>
#include <utility>

namespace larder::ipc {

using tiers::Message;
using tiers::Operation;

namespace {

WriteRules rules_of(const TierLink& link, const config::Config& config) {
  return link.kind() == TierKind::kDisk ? rules_for(config.disk) : rules_for(config.backend);
}

}  // namespace

TiersBelow::TiersBelow(std::vector<OpenTier> tiers, const config::Config& config, store::Store& store, stats::Stats& stats,
                       const base::Clock& clock, std::span<std::byte> arena) {
  std::vector<ReadSource*> sources;
  for (OpenTier& open : tiers) {
    const WriteRules rules = rules_of(*open.link, config);
    Tier* tier = tiers_.emplace_back(std::make_unique<Tier>(std::move(open), rules, store, clock, arena.size())).get();
    tier->source.set_hidden([tier](const protocol::NamespaceId& id) { return tier->write_down.waits_for_drop(id); });
    sources.push_back(&tier->source);
  }
  promotions_ = std::make_unique<Promotions>(sources, store, stats, clock, arena);
  for (const auto& tier : tiers_) {
    tier->link->answer_to(Operation::kGet, [this](const Message& message) { promotions_->on_get(message); });
    if (!tier->link->shared()) continue;
    looks_ = std::make_unique<Looks>(*tier->link, tier->source, sources, *promotions_, store, stats, clock);
    tier->link->answer_to(Operation::kLook, [this](const Message& message) { looks_->on_look(message); });
  }
}

void TiersBelow::deliver(store::TierNumber number) {
  for (const auto& tier : tiers_) {
    if (tier->link->number() != number) continue;
    tier->link->deliver();
    tier->write_down.pump();
  }
}

bool TiersBelow::go_on() {
  const bool promoted = promotions_->go_on();
  return (looks_ && looks_->go_on()) || promoted;
}

void TiersBelow::miss_deadlines() {
  promotions_->miss_deadlines();
  if (looks_) looks_->miss_deadlines();
}

std::uint64_t TiersBelow::next_deadline_ns() const {
  return std::min(promotions_->next_deadline_ns(), looks_ ? looks_->next_deadline_ns() : UINT64_MAX);
}

void TiersBelow::end_session(store::SessionNumber session) {
  promotions_->end_session(session);
  if (looks_) looks_->end_session(session);
}

void TiersBelow::write_by(const config::Config& config) {
  for (const auto& tier : tiers_) tier->write_down.write_by(rules_of(*tier->link, config));
}

void TiersBelow::tick(bool slept) {
  for (const auto& tier : tiers_) tier->write_down.tick();
  promotions_->tick(slept);
  if (looks_) looks_->tick();
}

DropBelow TiersBelow::drop(const protocol::NamespaceId& id) {
  for (const auto& tier : tiers_) tier->write_down.drop(id);
  return last_drop();
}

DropBelow TiersBelow::last_drop() const {
  DropBelow drop;
  for (const auto& tier : tiers_)
    drop.parts.push_back(
        {tier->link->kind(), tier->link->name(), tier->write_down.last_drop(), tier->write_down.last_drop_chunks()});
  return drop;
}

std::vector<DropUnderWay> TiersBelow::drops_under_way(const protocol::NamespaceId& id) const {
  std::vector<DropUnderWay> drops;
  for (const auto& tier : tiers_)
    if (std::shared_future<Status> drop = tier->write_down.drop_under_way(id); drop.valid())
      drops.push_back({std::move(drop), tier->link->shared()});
  return drops;
}

void TiersBelow::finish(std::uint64_t by_ns) {
  for (const auto& tier : tiers_) tier->write_down.finish(by_ns);
}

void TiersBelow::fill(stats::Stats& view) const {
  for (const auto& tier : tiers_) {
    stats::TierStats& stats = tier->link->kind() == TierKind::kDisk ? view.disk : view.backend;
    tier->link->fill(stats);
    tier->write_down.fill(stats);
    stats.get_time = tier->source.read_time();
    const protocol::BelowSpeed speed = tier->source.speed();
    stats.serving = speed.serving;
    stats.read_latency_ns = speed.read_latency_ns;
    stats.read_bytes_per_s = speed.read_bytes_per_s;
    if (stats.reason.empty()) stats.reason = promotions_->too_large();
    if (!stats.reason.empty()) view.fallbacks.emplace_back(tier->link->name(), stats.reason);
  }
}

}  // namespace larder::ipc
