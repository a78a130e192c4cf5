#include "sidecar/tiering/tier_forgetter.h"

#include "sidecar/tiering/chunk_key.h"

namespace larder::tiering {
namespace {

constexpr std::uint64_t kDropNs = 1'000'000'000;

}  // namespace

TierForgetter::TierForgetter(TierLink& link, store::Store& store, const base::Clock& clock)
    : link_(link), store_(store), clock_(clock) {
  store_.tiers().set(link_.number(), this);
}

TierForgetter::~TierForgetter() {
  store_.tiers().set(link_.number(), nullptr);
}

// A tier that is only read forgets at once, even where it refuses the operation.
void TierForgetter::drop(const std::optional<protocol::NamespaceId>& id) {
  const std::uint64_t by_ns = clock_.now_ns() + kDropNs;
  const tiers::Ticket ticket = link_.next_ticket();
  static_cast<void>(id ? link_.tier().drop_namespace(ticket, *id, by_ns).ok()
                       : link_.tier().clear(ticket, by_ns).ok());
}

store::LowerTierEviction TierForgetter::evicted(const protocol::Key& key) {
  static_cast<void>(link_.tier().evict(chunk_key_of(store_, key)).ok());
  return store::LowerTierEviction::kAbsent;
}

void TierForgetter::damaged(const protocol::EntryView& chunk) {
  static_cast<void>(link_.tier().evict(chunk_key_of(store_, chunk.key)).ok());
}

std::shared_ptr<void> TierForgetter::dropping(std::optional<std::uint32_t> handle) {
  drop(handle ? std::optional(store_.namespaces().at(*handle).spec.id) : std::nullopt);
  return nullptr;
}

}  // namespace larder::tiering
