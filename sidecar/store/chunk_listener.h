// ChunkListener: hears of changes of chunks; the writer of each lower tier is one. The thread of
// the store calls the listener from inside calls of the store, after the change is done or begun. A
// listener may only read from the store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "shim/protocol/index_layout.h"

namespace larder::store {

// The result of an eviction in a lower tier. The largest value of a family counts.
enum class LowerTierEviction : std::uint8_t { kAbsent, kGone, kRefused };

// Lower tiers, numbered from the nearest on. The marks of written chunks are kept for each tier.
using TierNumber = std::uint32_t;
inline constexpr TierNumber kMaxTiers = 3;

class ChunkListener {
 public:
  virtual ~ChunkListener() = default;

  // An engine stored the chunk; an engine used it.
  virtual void committed(const protocol::EntryView& chunk) = 0;
  virtual void used(const protocol::EntryView& chunk) = 0;
  // The chunk was promoted, from this tier or another. `since_s`: the Unix time from which its time
  // to live counts, or 0 if the tier does not know.
  virtual void came_up(const protocol::EntryView& chunk, std::uint32_t since_s) = 0;
  // Whether chunks are written to the tier.
  virtual bool stores() const { return true; }
  // Whether the tier wants the chunk before its eviction.
  virtual bool wants(const protocol::EntryView& chunk) const = 0;
  // A verb evicts the chunk everywhere, whether or not memory has it.
  virtual LowerTierEviction evicted(const protocol::Key& key) = 0;
  // The bytes do not match the root. Memory has dropped the chunk.
  virtual void damaged(const protocol::EntryView& chunk) = 0;
  // Whether one more drop may begin: the drops that wait for the tier are bounded.
  virtual bool takes_drops() const { return true; }
  // A drop of a namespace (empty: of all) begins, slice by slice. The drop keeps the returned value
  // until its end. Shared: the session that asked for the drop may end before.
  virtual std::shared_ptr<void> dropping(std::optional<std::uint32_t> handle) = 0;
};

}  // namespace larder::store
