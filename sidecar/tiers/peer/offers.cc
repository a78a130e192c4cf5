#include "sidecar/tiers/peer/offers.h"

namespace larder::peer {

void Offers::insert(const tiers::ChunkKey& key, const Offer& offer, std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (const auto found = offers_.find(key); found != offers_.end()) forget(found);
  offers_.emplace(key, offer);
  slot_bytes_ += offer.facts.slot_bytes();
  order_.emplace_back(key, offer.until_ns);
  // Deadlines rise along the queue, because every offer gets the same time. The front is the first
  // to end.
  // A renewed offer leaves its old entry in the queue: only the entry with the offer's own time
  // erases the offer.
  while (!order_.empty() && (order_.front().second <= now_ns || order_.size() > most_)) {
    const auto oldest = offers_.find(order_.front().first);
    if (oldest != offers_.end() && oldest->second.until_ns == order_.front().second) forget(oldest);
    order_.pop_front();
  }
}

std::optional<Offer> Offers::find(const tiers::ChunkKey& key, std::uint64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  const auto found = offers_.find(key);
  if (found == offers_.end() || found->second.until_ns <= now_ns) return std::nullopt;
  return found->second;
}

void Offers::erase(const tiers::ChunkKey& key, std::optional<std::uint64_t> generation) {
  const std::lock_guard lock(mutex_);
  const auto found = offers_.find(key);
  if (found != offers_.end() && (!generation || found->second.facts.generation == *generation))
    forget(found);
}

std::uint64_t Offers::erase_namespace(const std::optional<protocol::NamespaceId>& id) {
  const std::lock_guard lock(mutex_);
  std::uint64_t erased = 0;
  for (auto at = offers_.begin(); at != offers_.end();) {
    const auto next = std::next(at);
    if (!id || at->first.namespace_id == *id) {
      forget(at);
      ++erased;
    }
    at = next;
  }
  return erased;
}

std::uint64_t Offers::chunks() const {
  const std::lock_guard lock(mutex_);
  return offers_.size();
}

std::uint64_t Offers::slot_bytes() const {
  const std::lock_guard lock(mutex_);
  return slot_bytes_;
}

void Offers::forget(std::unordered_map<tiers::ChunkKey, Offer, KeyHash>::iterator at) {
  slot_bytes_ -= at->second.facts.slot_bytes();
  offers_.erase(at);
}

}  // namespace larder::peer
