// Offers: the chunks that members were found to have and hold for this larderd, each until the end
// of its hold. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "sidecar/tiers/peer/wire.h"
#include "sidecar/tiers/tier.h"

namespace larder::peer {

struct Offer {
  tiers::ChunkFacts facts;
  std::uint64_t member = 0;
  std::uint64_t until_ns = 0;
};

class Offers {
 public:
  // Beyond `most` the oldest offers are forgotten.
  explicit Offers(std::size_t most) : most_(most) {}

  // Replaces an offer of the same chunk. REQUIRES: until_ns never falls from call to call.
  void insert(const tiers::ChunkKey& key, const Offer& offer, std::uint64_t now_ns);
  std::optional<Offer> find(const tiers::ChunkKey& key, std::uint64_t now_ns) const;
  // With `generation` only an offer of this generation.
  void erase(const tiers::ChunkKey& key, std::optional<std::uint64_t> generation = {});
  // Returns the number of forgotten offers. Empty: all.
  std::uint64_t erase_namespace(const std::optional<protocol::NamespaceId>& id);

  std::uint64_t chunks() const;
  std::uint64_t slot_bytes() const;

 private:
  void forget(std::unordered_map<tiers::ChunkKey, Offer, KeyHash>::iterator at);

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::unordered_map<tiers::ChunkKey, Offer, KeyHash> offers_;
  // With until_ns; some may be replaced or gone.
  std::deque<std::pair<tiers::ChunkKey, std::uint64_t>> order_;
  std::uint64_t slot_bytes_ = 0;
};

}  // namespace larder::peer
