// RefusedChunks: chunks in memory that a tier did not store, with the time of the next offer and
// the cause. Owned by the thread of the loop.
//
// A chunk that was sent and refused waits a second, then twice as long after each refusal, five
// minutes at most. A chunk of which the tier moved nothing waits as long as the tier says. The
// table gives an entry back when its chunk is stored or leaves memory; where the table is full,
// chunks without an entry are offered every 5 s. A log line tells of each cause once a minute at
// most.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "shim/protocol/messages.h"
#include "sidecar/tiers/tier.h"

namespace larder::tiering {

class RefusedChunks {
 public:
  static constexpr std::size_t kMost = 1 << 16;
  static constexpr std::size_t kMostCauses = 8;  // further causes count as the last one

  // `name`: of the tier, in log lines.
  explicit RefusedChunks(std::string name) : name_(std::move(name)) {}

  bool waits(const protocol::SlotRef& chunk, std::uint64_t now_ns) const;
  // A put ended with `why`. `again_ns`: as in the message. An empty text is no cause: the tier
  // itself reports the reason.
  void refused(const protocol::SlotRef& chunk, const Status& why, std::uint64_t again_ns,
               std::uint64_t now_ns);
  // The tier stored the chunk: unsent chunks that wait for the same cause are offered at once.
  void stored(const protocol::SlotRef& chunk, std::uint64_t now_ns);
  // The chunk need not be written any more, or another larderd has put it into the tier.
  void forget(const protocol::SlotRef& chunk);
  // Looks at a slice of the table, and frees entries of chunks that left memory or were not offered
  // for ten minutes.
  using InMemory = std::function<bool(std::uint32_t slot, std::uint64_t generation)>;
  void give_back(const InMemory& in_memory, std::uint64_t now_ns);
  // The tier accepts chunks again: unsent chunks are offered at once.
  void tier_is_back();

  bool empty() const { return chunks_.empty(); }
  std::size_t size() const { return chunks_.size(); }
  // The cause of most waiting chunks; empty if no chunk waits.
  std::string reason() const;

 private:
  struct Chunk {
    std::uint64_t generation = 0;
    std::uint64_t wait_ns = 0;  // 0: no byte was sent at the last offer
    std::uint64_t next_ns = 0;
    std::size_t cause = kMostCauses;  // kMostCauses: no cause
  };
  struct Cause {
    std::string text;
    std::size_t waiting = 0;
    std::uint64_t refusals = 0;  // since the last line
    std::uint64_t next_line_ns = 0;
    bool logged = false;  // the log has the begin
  };
  using Chunks = std::map<std::uint32_t, Chunk>;  // by slot

  std::size_t cause_of(const std::string& text);
  Chunks::iterator erase(Chunks::iterator at);
  void tell(Cause& cause, std::uint64_t now_ns);

  const std::string name_;
  std::minstd_rand random_{1};
  Chunks chunks_;
  std::array<Cause, kMostCauses> causes_;
  std::uint32_t looked_to_ = 0;
  std::uint64_t full_until_ns_ = 0;
};

}  // namespace larder::tiering
