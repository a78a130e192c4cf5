// PeerHolds: keeps chunks in memory while the server of peers sends them, or holds them for a look.
// Owned by the thread of the loop.
//
// A look holds a chunk while all peers together hold at most a kShare-th of the arena, a read while
// they hold at most four times as much; one chunk may always be held. Beyond, a look names chunks
// without a hold, and a read is a miss. A held chunk stays until the server gives it back.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "sidecar/base/clock.h"
#include "sidecar/config/config.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/store.h"
#include "sidecar/tiers/peer/peer_server.h"

namespace larder::tiering {

// Errors name a key of peers.*. REQUIRES: peers.listen is set. The clock outlives the server.
Result<std::unique_ptr<peer::PeerServer>> open_peer_server(const config::Config& config,
                                                           const peer::Instance& self,
                                                           const base::Clock& clock);

class PeerHolds {
 public:
  static constexpr std::uint64_t kShare = 16;

  // The store outlives this object.
  PeerHolds(std::unique_ptr<peer::PeerServer> server, store::Store& store,
            std::uint64_t arena_bytes)
      : server_(std::move(server)), store_(store), most_bytes_(arena_bytes / kShare) {}

  // The server has requests.
  void deliver();
  // Answers requests: one slice. True: more slices follow.
  bool go_on();
  // Closes the connections of all peers. Blocks for a moment.
  void stop() { server_->stop(); }
  void fill(stats::Stats& view) const;

 private:
  // `hold`: holds the chunk as well, if at most `most_bytes` are held then.
  std::optional<peer::HeldChunk> look_at(const protocol::Key& key, bool hold,
                                         std::uint64_t most_bytes);

  std::unique_ptr<peer::PeerServer> server_;
  store::Store& store_;
  const std::uint64_t most_bytes_;
  std::deque<peer::HoldRequest> requests_;  // at most HoldExchange::kMostOpen
  std::uint64_t held_bytes_ = 0;
};

}  // namespace larder::tiering
