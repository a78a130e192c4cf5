// Holds: the chunks that a peer holds, each once and until a time. HoldTable: the holds of all.
// Owned by the thread that serves peers.
//
// All connections of a peer share its holds: a chunk that one connection asked about is sent on
// another. A chunk that is being sent stays held beyond its time. The destructor gives all chunks
// back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sidecar/tiers/peer/hold_exchange.h"
#include "sidecar/tiers/peer/wire.h"

namespace larder::peer {

class Holds {
 public:
  static constexpr std::size_t kMost = kMostKeys;  // further chunks are given back at once

  explicit Holds(HoldExchange& exchange) : exchange_(exchange) {}
  ~Holds() { clear(); }
  Holds(const Holds&) = delete;

  // Takes over a held chunk until `until_ns`. A second hold of the same chunk extends the first.
  void add(const tiers::ChunkKey& key, const HeldChunk& chunk, std::uint64_t until_ns);
  // The held chunk of this generation, or nullptr. The pointer is valid until the next call.
  const HeldChunk* find(const tiers::ChunkKey& key, std::uint64_t generation) const;
  void extend(const tiers::ChunkKey& key, std::uint64_t until_ns);
  // The hold ends, at once or after the last end_send().
  void done(const tiers::ChunkKey& key);
  // REQUIRES: held.
  void begin_send(const tiers::ChunkKey& key);
  void end_send(const tiers::ChunkKey& key);
  void expire(std::uint64_t now_ns);
  void clear();

  std::uint64_t next_ns() const { return next_ns_; }  // a lower bound of the next expiry
  std::size_t size() const { return chunks_.size(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Hold {
    HeldChunk chunk;
    std::uint64_t until_ns = 0;
    std::uint32_t sending = 0;
  };
  using Chunks = std::unordered_map<tiers::ChunkKey, Hold, KeyHash>;
  Chunks::iterator drop(Chunks::iterator at, std::vector<HeldChunk>& gone);

  HoldExchange& exchange_;
  Chunks chunks_;
  std::uint64_t next_ns_ = UINT64_MAX;
  std::uint64_t bytes_ = 0;
};

class HoldTable {
 public:
  // The exchange outlives this object and all holds.
  explicit HoldTable(HoldExchange& exchange) : exchange_(exchange) {}
  HoldTable(const HoldTable&) = delete;

  // The holds of the peer. Shared by the connections of the peer: the holds end with the last one.
  std::shared_ptr<Holds> of(const std::string& peer);
  std::uint64_t bytes() const;

 private:
  HoldExchange& exchange_;
  std::map<std::string, std::weak_ptr<Holds>> holds_;  // by peer; those without an owner leave
};

}  // namespace larder::peer
