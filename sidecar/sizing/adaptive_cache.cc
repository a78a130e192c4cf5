#include "sidecar/sizing/adaptive_cache.h"

#include <algorithm>

namespace larder::sizing {

using store::kNoSlot;

void AdaptiveCache::begin() {
  above_ = kNoSlot;
  ++request_;
}

void AdaptiveCache::use(std::uint64_t chunk, std::uint64_t) {
  const std::uint32_t slot = slots_.at(chunk);
  own_->policy.erase(slot, 0);
  own_->policy.used(slot);
  enter(slot);
}

bool AdaptiveCache::insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t) {
  if (bytes > size_bytes_) return false;
  if (own_ == nullptr) {
    const std::uint64_t slots = size_bytes_ / std::max<std::uint64_t>(bytes, 1);
    own_ = std::make_unique<Policy>(slots);
    chunks_.resize(slots);
  }
  // Without a free number, a chunk smaller than the first one waits for a larger one to leave.
  while (used_bytes_ + bytes > size_bytes_ || own_->table.used_up())
    if (!evict_one()) return false;
  const std::uint32_t slot = own_->table.take();
  used_bytes_ += bytes;
  chunks_[slot] = {chunk, bytes, request_};
  slots_[chunk] = slot;
  own_->policy.stored(slot, chunk, above_);
  enter(slot);
  return true;
}

// Each chunk of a request goes directly below the chunk before it, the first one to the warm end.
void AdaptiveCache::enter(std::uint32_t slot) {
  chunks_[slot].request = request_;
  if (above_ == kNoSlot)
    own_->policy.insert(slot, 0);
  else
    own_->policy.insert_below(slot, above_, 0);
  above_ = slot;
}

// False: the next victim is a chunk of this request.
bool AdaptiveCache::evict_one() {
  const std::uint32_t slot = own_->policy.first_own_victim(0);
  if (slot == kNoSlot || chunks_[slot].request == request_) return false;
  own_->policy.erase(slot, 0);
  own_->policy.evicted(slot, chunks_[slot].chunk);
  own_->table.give(slot);
  used_bytes_ -= chunks_[slot].bytes;
  slots_.erase(chunks_[slot].chunk);
  return true;
}

}  // namespace larder::sizing
