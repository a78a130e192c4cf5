#include "sidecar/store/hold_watch.h"

#include <algorithm>

#include "shim/protocol/checksum.h"

namespace larder::store {
namespace {

constexpr std::uint32_t kMostPages = (1U << 30) - 1;
static_assert(10 * protocol::kMaxPayloadBytes / protocol::kSlotAlignBytes < kMostPages);

std::uint32_t slot_of(std::uint64_t hold) {
  return protocol::low_half(hold) - 1;
}

// The size of the held slot in pages; 0 for an unknown slot or another generation.
std::uint32_t held_pages(std::uint64_t hold, const IndexWriter& index) {
  const std::uint32_t slot = slot_of(hold);
  if (slot >= index.entry_count() || protocol::make_hold(slot, index.generation(slot)) != hold)
    return 0;
  const protocol::EntryView view = index.view(slot);
  if (view.piece_bytes == 0) return 0;  // never granted
  return static_cast<std::uint32_t>(protocol::slot_bytes(view.payload_bytes, view.piece_bytes) /
                                    protocol::kSlotAlignBytes);
}

bool marked(const std::vector<std::uint64_t>& bits, std::uint32_t slot) {
  return slot / 64 < bits.size() && (bits[slot / 64] >> (slot % 64) & 1) != 0;
}
void mark(std::vector<std::uint64_t>& bits, std::uint32_t slot) {
  if (slot / 64 >= bits.size()) bits.resize(slot / 64 + 1);
  bits[slot / 64] |= 1ULL << (slot % 64);
}

}  // namespace

void HoldWatch::look(const protocol::SessionRegion& region, const IndexWriter& index,
                     std::uint64_t now_ms, std::uint64_t cap_bytes,
                     std::vector<std::uint64_t>& seen, stats::Stats& stats) {
  // The region is writable by the engine. Every value read here is bounded before use.
  const auto used = std::min<std::uint64_t>(region.holds_used.load(std::memory_order_seq_cst),
                                            protocol::kMaxHolds);
  if (places_.size() < used) places_.resize(used);
  const auto now = static_cast<std::uint32_t>(now_ms);
  holds_ = 0;
  bytes_ = 0;
  for (std::uint32_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const std::uint64_t hold = region.holds[i].load(std::memory_order_seq_cst);
    if (hold != place.word) place = {hold, now, 0, 0, held_pages(hold, index) & kMostPages};
    if (hold == 0) continue;
    // The size cannot be read from the hold. Until it is known the hold counts no bytes and is
    // still valid.
    if (place.pages == 0)
      place.pages = held_pages(hold, index) & kMostPages;  // announced before the grant
    ++holds_;
    if (!place.expired && now - place.since_ms > protocol::kMaxHoldAgeMs) {  // mutation: hold-age
      place.expired = 1;
      ++stats.holds_expired;
    }
    if (place.expired || place.pages == 0) continue;
    const std::uint64_t bytes = place.pages * protocol::kSlotAlignBytes;
    // Several holds of one slot count their bytes once: requests with a common prefix hold the same
    // chunks.
    const bool again = marked(seen, slot_of(hold));
    const bool above =
        !again && bytes > cap_bytes - std::min(bytes_, cap_bytes);  // mutation: hold-cap
    stats.holds_over_cap += above && !place.above;
    place.above = above;
    if (above || again) continue;
    bytes_ += bytes;
    mark(seen, slot_of(hold));
  }
  for (const Place& place : places_)
    // Only touched words are cleared: the bits of a million slots are not written at each look.
    if (marked(seen, slot_of(place.word))) seen[slot_of(place.word) / 64] = 0;
}

void HoldWatch::restart(std::uint64_t now_ms) {
  for (Place& place : places_) {
    place.since_ms = static_cast<std::uint32_t>(now_ms);
    place.expired = 0;
  }
}

}  // namespace larder::store
