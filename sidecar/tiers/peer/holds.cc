#include "sidecar/tiers/peer/holds.h"

#include <algorithm>

namespace larder::peer {

void Holds::add(const tiers::ChunkKey& key, const HeldChunk& chunk, std::uint64_t until_ns) {
  const auto found = chunks_.find(key);
  // A peer holds a chunk once, whatever the number of questions. The store counts each hold, so the
  // second one goes back.
  if (found != chunks_.end() && found->second.chunk.facts.generation == chunk.facts.generation) {
    found->second.until_ns = std::max(found->second.until_ns, until_ns);
    return exchange_.give_back({chunk});  // held twice
  }
  // A chunk of another generation under the key was replaced in the store: it ends by its own time.
  if (found != chunks_.end() || chunks_.size() >= kMost) return exchange_.give_back({chunk});
  chunks_.emplace(key, Hold{chunk, until_ns, 0});
  bytes_ += chunk.slot.size();
  next_ns_ = std::min(next_ns_, until_ns);
}

const HeldChunk* Holds::find(const tiers::ChunkKey& key, std::uint64_t generation) const {
  const auto found = chunks_.find(key);
  return found == chunks_.end() || found->second.chunk.facts.generation != generation
             ? nullptr
             : &found->second.chunk;
}

void Holds::extend(const tiers::ChunkKey& key, std::uint64_t until_ns) {
  if (const auto found = chunks_.find(key); found != chunks_.end())
    found->second.until_ns = std::max(found->second.until_ns, until_ns);
}

void Holds::done(const tiers::ChunkKey& key) {
  const auto found = chunks_.find(key);
  if (found == chunks_.end()) return;
  // Time 0 marks a hold whose end waits for the last byte on a socket: queued bytes of a slot given
  // back too early would be those of the next chunk in the slot.
  found->second.until_ns = 0;
  next_ns_ = 0;
  if (found->second.sending != 0) return;
  std::vector<HeldChunk> gone;
  drop(found, gone);
  exchange_.give_back(std::move(gone));
}

void Holds::begin_send(const tiers::ChunkKey& key) {
  // A count, not a flag: several connections of one peer may send parts of one chunk.
  ++chunks_.at(key).sending;
}

void Holds::end_send(const tiers::ChunkKey& key) {
  const auto found = chunks_.find(key);
  // The hold may be gone: clear() ends the holds of a peer with its last connection.
  if (found == chunks_.end() || found->second.sending == 0) return;
  if (--found->second.sending != 0) return;
  if (found->second.until_ns == 0) return done(key);
  next_ns_ = std::min(next_ns_, found->second.until_ns);
}

void Holds::expire(std::uint64_t now_ns) {
  // Every connection of the peer calls this each turn. The bound spares the walk over up to 1,024
  // chunks.
  if (now_ns < next_ns_) return;
  next_ns_ = UINT64_MAX;
  std::vector<HeldChunk> gone;
  for (auto at = chunks_.begin(); at != chunks_.end();) {
    if (at->second.until_ns <= now_ns && at->second.sending == 0) {
      at = drop(at, gone);
      continue;
    }
    if (at->second.sending == 0) next_ns_ = std::min(next_ns_, at->second.until_ns);
    ++at;
  }
  exchange_.give_back(std::move(gone));
}

void Holds::clear() {
  std::vector<HeldChunk> gone;
  for (auto at = chunks_.begin(); at != chunks_.end();) at = drop(at, gone);
  exchange_.give_back(std::move(gone));
}

Holds::Chunks::iterator Holds::drop(Chunks::iterator at, std::vector<HeldChunk>& gone) {
  bytes_ -= at->second.chunk.slot.size();
  gone.push_back(at->second.chunk);
  return chunks_.erase(at);
}

std::shared_ptr<Holds> HoldTable::of(const std::string& peer) {
  // A peer with a new INSTANCE gets a new entry at each restart: without this line the map grows
  // for the life of the server.
  std::erase_if(holds_, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<Holds>& known = holds_[peer];
  std::shared_ptr<Holds> holds = known.lock();
  if (holds == nullptr) known = holds = std::make_shared<Holds>(exchange_);
  return holds;
}

std::uint64_t HoldTable::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [peer, holds] : holds_)
    if (const std::shared_ptr<Holds> known = holds.lock()) bytes += known->bytes();
  return bytes;
}

}  // namespace larder::peer
