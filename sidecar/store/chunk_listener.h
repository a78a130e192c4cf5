// ChunkListener: who wants to know what becomes of chunks, as a tier below the memory does. Called by the store's thread from inside
// the store's calls; what it is told is done or begun, and it must not call the store back but for reading. Each tier has one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "shim/protocol/index_layout.h"

namespace larder::store {

// What became below of a chunk that is not wanted any more, in the order of what counts for its family.
enum class EvictedBelow : std::uint8_t { kAbsent, kGone, kRefused };

// Tiers below the memory, numbered from the nearest on. What one has is marked apart from what another has.
using TierNumber = std::uint32_t;
inline constexpr TierNumber kMaxTiers = 2;

class ChunkListener {
 public:
  virtual ~ChunkListener() = default;

  // An engine stored it; one used it.
  virtual void committed(const protocol::EntryView& chunk) = 0;
  virtual void used(const protocol::EntryView& chunk) = 0;
  // It came up from below, from this tier or another. `since_s`: Unix time from which its time to live counts, where whoever had it told;
  // 0: that is not known.
  virtual void came_up(const protocol::EntryView& chunk, std::uint32_t since_s) = 0;
  // Whether it is one to be written below before it is evicted for room.
  virtual bool wants(const protocol::EntryView& chunk) const = 0;
  // It is to be gone everywhere, whether or not it is here.
  virtual EvictedBelow evicted(const protocol::Key& key) = 0;
  // Its bytes do not match its root. It is gone here.
  virtual void damaged(const protocol::EntryView& chunk) = 0;
  // Whether one drop more may begin: those that the tier has not taken yet are bounded.
  virtual bool takes_drops() const { return true; }
  // A namespace (none: every one) is being dropped, slice by slice. The drop keeps what is returned until it is done or given up:
  // shared, since who asked for the drop may leave before its end.
  virtual std::shared_ptr<void> dropping(std::optional<std::uint32_t> handle) = 0;
};

}  // namespace larder::store
