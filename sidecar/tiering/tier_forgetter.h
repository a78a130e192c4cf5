// TierForgetter: tells a tier that is only read, such as peers, of drops and evictions, so that the
// tier forgets the offers of other larderd. Chunks of other larderd stay. Owned by the thread of
// the loop.
#pragma once

#include <memory>
#include <optional>

#include "sidecar/base/clock.h"
#include "sidecar/store/store.h"
#include "sidecar/tiering/tier_link.h"

namespace larder::tiering {

class TierForgetter final : public store::ChunkListener {
 public:
  // All arguments outlive this object, which registers itself with the store.
  TierForgetter(TierLink& link, store::Store& store, const base::Clock& clock);
  ~TierForgetter() override;
  TierForgetter(const TierForgetter&) = delete;

  // No offer of the namespace (empty: of all) from before is found from here on.
  void drop(const std::optional<protocol::NamespaceId>& id);

  void committed(const protocol::EntryView&) override {}
  void used(const protocol::EntryView&) override {}
  void came_up(const protocol::EntryView&, std::uint32_t) override {}
  bool stores() const override { return false; }
  bool wants(const protocol::EntryView&) const override { return false; }
  store::LowerTierEviction evicted(const protocol::Key& key) override;
  void damaged(const protocol::EntryView& chunk) override;
  std::shared_ptr<void> dropping(std::optional<std::uint32_t> handle) override;

 private:
  TierLink& link_;
  store::Store& store_;
  const base::Clock& clock_;
};

}  // namespace larder::tiering
