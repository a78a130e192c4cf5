// PromotionReads: reads of chunks from lower tiers into slots of larderd, one read for each chunk.
//
// want() returns a ticket; a second want() of the same chunk returns the same ticket. Reads for a
// waiting fetch go before reads ahead. A slot is granted when the read begins, so a waiting read
// costs no arena memory; the bytes in reads are bounded. Each device of a tier has its own lane,
// so that a slow device delays no other device. take_outcome() reports the ends, in order. A slot
// that a device still uses after the deadline of its read is quarantined, and its key is free at
// once. Owned by the thread of the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/store/store.h"
#include "sidecar/tiering/readable_tier.h"
#include "sidecar/tiers/tier.h"

namespace larder::tiering {

class PromotionReads {
 public:
  // The bound of running reads of a lane; one more read may exceed it.
  static constexpr std::uint64_t kReadingBytes = 32ULL << 20;
  static constexpr std::uint64_t kAheadBytes = 16ULL
                                               << 20;  // the same for the start of a read ahead
  static constexpr std::size_t kMostWaiting = 16'384;  // waiting reads ahead of a lane
  // All reads ahead together: at most this share of the arena.
  static constexpr std::uint64_t kAheadShare = 2;
  static constexpr std::uint64_t kReadMs = 5000;  // the deadline of one read

  // All arguments outlive this object. `sources`: nearest first. `arena`: the arena of the store.
  PromotionReads(std::span<ReadableTier* const> sources, store::Store& store,
                 const base::Clock& clock, std::span<std::byte> arena);

  // The nearest source that has the chunk; a source that answers in time is preferred.
  std::optional<Found> probe(const tiers::ChunkKey& chunk) const;

  // One stop_wanting() may follow each want(). `found`: from probe().
  tiers::Ticket want(const protocol::Key& key, const tiers::ChunkKey& chunk, const Found& found);
  // A read without wants is not begun. A running read goes on, and its chunk stays in memory like
  // any other.
  void stop_wanting(tiers::Ticket ticket);
  // Reads ahead, without a waiting fetch. False: too many reads wait already.
  bool want_ahead(const protocol::Key& key, const tiers::ChunkKey& chunk, const Found& found);
  // The source of a running or waiting read; nullptr without one.
  const ReadableTier* coming(const protocol::Key& key) const;

  // Begins reads within the bounds, until the effort of the store exceeds `until`. True: more reads
  // may begin now.
  bool begin(std::uint64_t until);
  // False: the message belongs to no read of this object.
  bool on_message(const tiers::Message& message);

  struct Outcome {
    tiers::Ticket ticket = 0;
    Status status;  // kResourceExhausted: no room. kNotFound: a miss. Other errors: the tier failed
    protocol::SlotRef slot;        // ok: kept once; the receiver of the outcome calls let_go()
    std::uint64_t read_bytes = 0;  // from the tier; 0 if an engine had stored the chunk
  };
  // The next outcome, in the order of the ends.
  std::optional<Outcome> take_outcome();

 private:
  struct Lane {
    ReadableTier* source = nullptr;
    std::deque<tiers::Ticket> waiting, waiting_ahead;  // some may have ended
    std::uint64_t reading_bytes = 0;
  };
  struct Read {
    Lane* lane = nullptr;
    protocol::Key key;
    tiers::ChunkKey chunk;
    tiers::ChunkFacts facts;
    protocol::SlotRef slot;
    std::uint64_t begun_ns = 0;
    std::uint32_t wanted = 0;
    bool ahead = false, waits = false;  // the queue
    bool begun = false, ended = false;
  };
  struct KeyHash {
    std::size_t operator()(const protocol::Key& key) const { return key.mixed(); }
  };
  enum class Begun { kYes, kNo, kNotNow };

  Lane& lane_of(const ReadableTier& source, const tiers::ChunkKey& chunk);
  Read& enter(const protocol::Key& key, const tiers::ChunkKey& chunk, const Found& found,
              tiers::Ticket& ticket);
  bool begin(Lane& lane, std::uint64_t until);
  bool begin_one(Lane& lane, std::deque<tiers::Ticket>& queue, std::uint64_t limit);
  Begun begin_read(tiers::Ticket ticket, Read& read);
  void end(tiers::Ticket ticket, Status status, std::uint64_t read_bytes = 0);

  store::Store& store_;
  const base::Clock& clock_;
  std::span<std::byte> arena_;
  std::vector<ReadableTier*> sources_;  // nearest first
  std::vector<Lane> lanes_;             // of all sources, nearest first; fixed
  std::unordered_map<tiers::Ticket, Read> reads_;
  // Without ended reads whose slot is still busy.
  std::unordered_map<protocol::Key, tiers::Ticket, KeyHash> by_key_;
  std::deque<Outcome> outcomes_;
  std::uint64_t ahead_bytes_ = 0;
};

}  // namespace larder::tiering
