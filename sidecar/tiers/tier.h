// Tier: a place for chunks below the memory, behind one asynchronous interface that disk and remote implement.
//
// An operation is accepted or refused at once; one that was accepted is answered by exactly one message kDone, by its deadline at
// the latest. Bytes are moved straight from and to the caller's slot: where the deadline comes first while the device still has the
// slot, the kDone says `slot_busy`, and one message kReleased with the same ticket follows once the device has let go. Until then
// the slot belongs to the tier. Times are of the base::Clock that the tier was given.
//
// put, get, look, forget, evict, drop_namespace, clear, flush, take_messages and close are called by one thread, the loop; takes, probe,
// state and counters by any. None waits for a device or network, close() apart. A tier checks what it stores about a chunk; the payload's
// bytes are verified by the engine that loads them, against the root.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "shim/protocol/checksum.h"
#include "shim/protocol/key.h"

namespace larder::tiers {

// A key that outlives an index: the namespace by its 128-bit id, not by a handle.
struct ChunkKey {
  protocol::NamespaceId namespace_id;
  protocol::BlockHash hash;
  std::uint16_t shard = 0;
  std::uint16_t group = 0;
  friend bool operator==(const ChunkKey&, const ChunkKey&) = default;
};

// What is told of a chunk besides its bytes, which are those of its slot: payload, digest table, padding.
struct ChunkFacts {
  std::uint64_t generation = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t piece_bytes = 0;  // with payload_bytes it tells where the digest table stands
  std::uint64_t root = 0;
  // Unix time from which its time to live counts, in a tier that has one; of a put 0: from now on. No part of what it is.
  std::uint32_t since_s = 0;
  std::uint64_t slot_bytes() const { return protocol::slot_bytes(payload_bytes, piece_bytes); }
  friend bool operator==(const ChunkFacts& a, const ChunkFacts& b) {
    return a.generation == b.generation && a.payload_bytes == b.payload_bytes && a.piece_bytes == b.piece_bytes &&
           a.root == b.root;
  }
};

// Whether these describe a slot within the limits of the protocol: a tier refuses others.
inline bool plausible(const ChunkFacts& facts) {
  return facts.payload_bytes > 0 && facts.payload_bytes <= protocol::kMaxPayloadBytes && facts.piece_bytes > 0 &&
         facts.piece_bytes <= protocol::kMaxPieceBytes && facts.payload_bytes % facts.piece_bytes == 0;
}

using Ticket = std::uint64_t;  // the caller's own name for an operation, handed back with its messages

enum class Operation : std::uint8_t { kPut, kGet, kDrop, kClear, kFlush, kProbe };
inline constexpr std::size_t kOperations = 6;
inline constexpr std::size_t kMaxProbeKeys = protocol::kMaxKeysPerFetch;

struct Message {
  enum class Kind : std::uint8_t { kDone, kReleased };
  Kind kind = Kind::kDone;
  Operation operation = Operation::kPut;
  bool slot_busy = false;  // kDone: the device still has the slot, kReleased follows
  Ticket ticket = 0;
  Status status;                 // kDone: ok, or why not. Whatever it is but ok is a miss
  ChunkFacts facts;              // kDone of a get that succeeded
  std::uint64_t dropped = 0;     // kDone of a drop or clear: chunks that were there
  std::vector<bool> there = {};  // kDone of a look that succeeded: of each key, in their order, whether a get would find it
  // kDone of a put that failed: not 0: nothing of it was moved, since the device refuses others of its size; offer it again from then on.
  std::uint64_t again_ns = 0;
};

// What the tier takes now. A refusal is no fault of the caller's and ends by itself.
struct TierState {
  bool takes_puts = true;
  bool takes_gets = true;
  std::string reason;     // empty while all is well; while both are taken: what fails of it, e.g. one of several servers
  std::string mode = {};  // how it reaches its device, for people: "io_uring", "threads"
  bool degraded() const { return !takes_puts || !takes_gets; }
};

// Counters only grow; the last block are gauges.
struct TierCounters {
  std::uint64_t puts = 0, put_bytes = 0, puts_present = 0, puts_failed = 0;
  std::uint64_t gets = 0, get_bytes = 0, gets_missed = 0, gets_failed = 0;
  std::uint64_t refused = 0;           // not accepted: over a bound, or degraded
  std::uint64_t deadlines_missed = 0;  // of those that failed
  std::uint64_t records_corrupt = 0;   // found not to be what was stored
  std::uint64_t chunks_evicted = 0, chunks_dropped = 0, chunks_expired = 0;
  std::uint64_t written_bytes = 0, read_bytes = 0;  // to and from the device, with all that is not payload
  std::uint64_t times_degraded = 0;

  std::uint64_t chunks = 0, used_bytes = 0, capacity_bytes = 0, in_flight_bytes = 0;
  std::uint64_t read_window_bytes = 0, write_window_bytes = 0;  // that may be at the device at once
};

// Is told what a tier has, so that others can look it up without asking. Called from the tier's own thread, never two calls at once;
// it returns at once, throws nothing and calls no tier.
class Residents {
 public:
  virtual ~Residents() = default;
  virtual void added(const ChunkKey& key) = 0;  // also where it was there already
  // The same of many, for who is faster so.
  virtual void added_all(std::span<const ChunkKey> keys) {
    for (const ChunkKey& key : keys) added(key);
  }
  virtual void removed(const ChunkKey& key) = 0;  // also where it was never told of
  virtual void removed_all() = 0;
};

class Tier {
 public:
  virtual ~Tier() = default;

  // Stores the slot's bytes; the newest put of a key wins, one that is stored already (same generation and root) costs nothing.
  // REQUIRES: slot.size() == facts.slot_bytes(), the slot unchanged until the operation has ended.
  // Refused: kInvalidArgument (implausible facts, wrong size, an unaligned slot), kOutOfRange (larger than the tier ever takes),
  // kResourceExhausted (too much in flight), kUnavailable (degraded or closed).
  virtual Status put(Ticket ticket, const ChunkKey& key, const ChunkFacts& facts, std::span<const std::byte> slot,
                     std::uint64_t deadline_ns) = 0;
  // kOutOfRange, and which setting to change to what: a slot of so many bytes is larger than the tier ever takes. Thread-safe.
  virtual Status takes(std::uint64_t) const { return {}; }
  // Brings a chunk's slot bytes up. The slot may be larger than what was stored; what it holds after a failure is undefined. Fails
  // with kNotFound (a miss), kDataLoss (what is stored is not that chunk: it is forgotten), kInvalidArgument (the slot is too
  // small).
  virtual Status get(Ticket ticket, const ChunkKey& key, std::span<std::byte> slot, std::uint64_t deadline_ns) = 0;
  // Asks the place itself which of the keys are there, also those that others wrote; what it has found is known to probe() and told
  // to the Residents before the message comes. All of them together take as many round trips as one.
  // Refused: kInvalidArgument (no keys), kOutOfRange (more than kMaxLookKeys), kResourceExhausted, kUnavailable.
  virtual Status probe(Ticket ticket, std::span<const ChunkKey> keys, std::uint64_t deadline_ns) = 0;
  // From the return on no probe and no get finds what was put before; done once that also survives a restart.
  virtual Status drop_namespace(Ticket ticket, const protocol::NamespaceId& id, std::uint64_t deadline_ns) = 0;
  virtual Status clear(Ticket ticket, std::uint64_t deadline_ns) = 0;
  // Done once all puts accepted before have ended, and what they stored survives the machine's death.
  virtual Status flush(Ticket ticket, std::uint64_t deadline_ns) = 0;

  // Whether a get would find the key, as far as memory tells. Thread-safe; waits for no device.
  virtual std::optional<ChunkFacts> probe(const ChunkKey& key) const = 0;
  // The engine found the bytes of this generation bad: it is not found again.
  virtual void forget(const ChunkKey& key, std::uint64_t generation) = 0;
  // It is not wanted any more, of whichever generation: no get that comes later finds it, and no put that came before stores it; a
  // probe sees so a moment later. No message follows. Refused: kResourceExhausted (too many at once; ask again), kUnavailable (closed;
  // or gone for now, and a device that does not take the note of it may have it again after a restart).
  virtual Status evict(const ChunkKey& key) {
    if (const std::optional<ChunkFacts> known = probe(key)) forget(key, known->generation);
    return {};
  }

  // Readable while there are messages; take_messages() appends them in order and makes it quiet.
  virtual int message_fd() const = 0;
  virtual void take_messages(std::vector<Message>& out) = 0;

  virtual TierState state() const = 0;        // thread-safe
  virtual TierCounters counters() const = 0;  // thread-safe

  // Ends everything: what is in flight has `grace_ms` to finish, the rest is answered kUnavailable. Returns false where a device
  // still has a slot then. Nothing is accepted afterwards; messages can still be taken.
  virtual bool close(std::uint64_t grace_ms) = 0;
};

}  // namespace larder::tiers
