// PromotionReads: chunks on their way up from the tiers, each once, into slots that larderd itself was granted.
//
// Who wants one asks by key and gets a ticket; a chunk that is wanted already has the same one. Wanted for somebody who waits goes
// before wanted ahead. A slot is taken when the read begins, so what waits here costs no memory of the arena; bytes that are being
// read are bounded. Each tier has a lane of its own, so that one that is slow keeps nobody from the others. What ends is told by
// outcome, in order. Owned by the loop's thread.
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
  // Of all reads of a tier that were begun and have not ended; one more at most.
  static constexpr std::uint64_t kReadingBytes = 32ULL << 20;
  static constexpr std::uint64_t kAheadBytes = 16ULL << 20;  // ... up to which one is begun that nobody waits for
  static constexpr std::size_t kMostWaiting = 16'384;        // reads of a tier not begun yet that nobody waits for
  static constexpr std::uint64_t kAheadShare = 2;            // ... and of the arena one part in so many of them all
  static constexpr std::uint64_t kReadMs = 5000;             // that one may take

  // All of them outlive it. `sources`: nearest first. `arena`: the store's.
  PromotionReads(std::span<ReadableTier* const> sources, store::Store& store, const base::Clock& clock,
                 std::span<std::byte> arena);

  // The nearest that has it, of those that answer in time if there is one.
  std::optional<Found> probe(const tiers::ChunkKey& chunk) const;

  // Each want() is one that may stop_wanting(). `found`: as probe() says.
  tiers::Ticket want(const protocol::Key& key, const tiers::ChunkKey& chunk, const Found& found);
  // A read that nobody wants any more is not begun; one that has begun goes on, and its chunk stays in memory as any other.
  void stop_wanting(tiers::Ticket ticket);
  // Nobody waits for it. False: too many wait already.
  bool want_ahead(const protocol::Key& key, const tiers::ChunkKey& chunk, const Found& found);
  // Where it comes from; nullptr: it is not on its way.
  const ReadableTier* coming(const protocol::Key& key) const;

  // Begins what the bounds allow, until the store's effort is above `until`. True: there is more to begin now.
  bool begin(std::uint64_t until);
  // False: it is of no read of these.
  bool on_message(const tiers::Message& message);

  struct Outcome {
    tiers::Ticket ticket = 0;
    Status status;                 // kResourceExhausted: no room. kNotFound: a miss. Whatever else: the tier failed
    protocol::SlotRef slot;        // ok: kept once, for who takes the outcome to let go
    std::uint64_t read_bytes = 0;  // from the tier; 0 where somebody else had stored it
  };
  // In the order in which they ended.
  std::optional<Outcome> take_outcome();

 private:
  struct Lane {
    ReadableTier* source = nullptr;
    std::deque<tiers::Ticket> waiting, waiting_ahead;  // some of them ended meanwhile
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
    bool ahead = false, waits = false;  // in which queue
    bool begun = false, ended = false;
  };
  struct KeyHash {
    std::size_t operator()(const protocol::Key& key) const { return key.mixed(); }
  };
  enum class Begun { kYes, kNo, kNotNow };

  Read& enter(const protocol::Key& key, const tiers::ChunkKey& chunk, const Found& found, tiers::Ticket& ticket);
  bool begin(Lane& lane, std::uint64_t until);
  bool begin_one(Lane& lane, std::deque<tiers::Ticket>& queue, std::uint64_t limit);
  Begun begin_read(tiers::Ticket ticket, Read& read);
  void end(tiers::Ticket ticket, Status status, std::uint64_t read_bytes = 0);

  store::Store& store_;
  const base::Clock& clock_;
  std::span<std::byte> arena_;
  std::vector<Lane> lanes_;  // nearest first; never more or fewer
  std::unordered_map<tiers::Ticket, Read> reads_;
  std::unordered_map<protocol::Key, tiers::Ticket, KeyHash> by_key_;  // but for those that ended and whose slot is still busy
  std::deque<Outcome> outcomes_;
  std::uint64_t ahead_bytes_ = 0;
};

}  // namespace larder::tiering
