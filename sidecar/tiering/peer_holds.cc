#include "sidecar/tiering/peer_holds.h"

#include <utility>

namespace larder::tiering {
namespace {

// A read may hold so many times the budget of looks.
constexpr std::uint64_t kReadTimes = 4;

}  // namespace

Result<std::unique_ptr<peer::PeerServer>> open_peer_server(const config::Config& config,
                                                           const peer::Instance& self,
                                                           const base::Clock& clock) {
  return peer::PeerServer::start(clock, peer::server_options_of(config, self));
}

void PeerHolds::deliver() {
  peer::HoldExchange::Waiting waiting = server_->exchange().take_requests();
  // First, so the requests of the same call find the room that these chunks had.
  for (const peer::HeldChunk& chunk : waiting.given_back) {
    store_.readers().let_go(chunk.slot_number, chunk.facts.generation);  // mutation: peer-hold-ends
    held_bytes_ -= chunk.slot.size();
  }
  for (peer::HoldRequest& request : waiting.requests) requests_.push_back(std::move(request));
}

bool PeerHolds::go_on() {
  // In slices, like every work of the loop: a peer with thousands of keys must not delay local
  // engines.
  const std::uint64_t until = store_.effort() + store::Store::kSliceEffort;
  while (!requests_.empty() && store_.effort() < until) {
    const peer::HoldRequest request = std::move(requests_.front());
    requests_.pop_front();
    peer::HoldReply reply{request.connection, {}};
    reply.chunks.resize(request.keys.size());
    const std::uint64_t most_bytes = request.read ? kReadTimes * most_bytes_ : most_bytes_;
    // One text may have several layouts, each with a handle of its own.
    for (const std::uint32_t handle : store_.namespaces().handles()) {
      if (!(store_.namespaces().at(handle).spec.id == request.keys.front().namespace_id)) continue;
      for (std::size_t i = 0; i < request.keys.size(); ++i) {
        const tiers::ChunkKey& key = request.keys[i];
        if (reply.chunks[i]) continue;
        reply.chunks[i] =
            look_at({key.hash, handle, key.shard, key.group}, request.hold, most_bytes);
      }
    }
    server_->exchange().answer(std::move(reply));
  }
  return !requests_.empty();
}

std::optional<peer::HeldChunk> PeerHolds::look_at(const protocol::Key& key, bool hold,
                                                  std::uint64_t most_bytes) {
  const std::optional<protocol::EntryView> chunk = store_.find(key);
  if (!chunk) return std::nullopt;
  peer::HeldChunk found;
  found.facts = {chunk->generation, chunk->payload_bytes, chunk->piece_bytes, chunk->root, 0};
  found.slot = store_.slot_memory(*chunk);
  found.slot_number = chunk->slot;
  // One chunk always fits, so a chunk larger than the budget can be read at all.
  const bool room = held_bytes_ == 0 ||
                    held_bytes_ + found.slot.size() <= most_bytes;  // mutation: peer-hold-budget
  found.held = hold && room && store_.readers().keep(chunk->slot, chunk->generation);
  if (found.held) held_bytes_ += found.slot.size();
  return found;
}

void PeerHolds::fill(stats::Stats& view) const {
  const peer::ServerCounters counters = server_->counters();
  stats::PeerServingStats& serving = view.peer_serving;
  serving.address = server_->address();
  serving.connections = counters.connections;
  serving.peers = counters.peers;
  serving.held_bytes = held_bytes_;
  serving.accepted = counters.accepted;
  serving.refused = counters.refused;
  serving.broken = counters.broken;
  serving.stalled = counters.stalled;
  serving.probes = counters.probes;
  serving.keys = counters.keys;
  serving.keys_found = counters.keys_found;
  serving.gets = counters.gets;
  serving.gets_missed = counters.gets_missed;
  serving.sent_bytes = counters.sent_bytes;
}

}  // namespace larder::tiering
