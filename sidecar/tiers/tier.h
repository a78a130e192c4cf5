// Tier: a place for chunks below memory, behind one asynchronous interface. disk and remote
// implement the interface.
//
// An operation is accepted or refused at once. Each accepted operation gets exactly one message
// kDone, by its deadline at the latest. The device moves bytes directly from and to the slot of the
// caller. If the deadline passes while the device still uses the slot, the kDone has `slot_busy`,
// and one message kReleased with the same ticket follows once the device has released the slot.
// Until then the slot belongs to the tier. Every failure is a miss: a refusal at once, or a status.
// Times are of the base::Clock of the tier.
//
// One thread, the loop, calls put, get, probe (with a ticket), forget, evict, drop_namespace,
// clear, flush, take_messages and close. Any thread may call takes, probe (of one key), device,
// state and counters. Only close() waits for a device or network. A tier checks its own data about
// a chunk; the engine that loads a chunk verifies the payload against the root.
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

// A key that outlives an index: it names the namespace by the 128-bit id. A handle is valid in one
// index only.
struct ChunkKey {
  protocol::NamespaceId namespace_id;
  protocol::BlockHash hash;
  std::uint16_t shard = 0;
  std::uint16_t group = 0;
  friend bool operator==(const ChunkKey&, const ChunkKey&) = default;
};

// The data about a chunk besides the bytes of its slot (payload, digest table, padding).
struct ChunkFacts {
  std::uint64_t generation = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t piece_bytes = 0;  // gives, with payload_bytes, the place of the digest table
  std::uint64_t root = 0;
  // The Unix time at which the time to live begins, in a tier with a time to live; 0 in a put: now.
  // Not part of equality.
  std::uint32_t since_s = 0;
  std::uint64_t slot_bytes() const { return protocol::slot_bytes(payload_bytes, piece_bytes); }
  friend bool operator==(const ChunkFacts& a, const ChunkFacts& b) {
    return a.generation == b.generation && a.payload_bytes == b.payload_bytes &&
           a.piece_bytes == b.piece_bytes && a.root == b.root;
  }
};

// Whether both chunks have the same bytes, whoever wrote them and when.
inline bool same_bytes(const ChunkFacts& a, const ChunkFacts& b) {
  return a.root == b.root && a.payload_bytes == b.payload_bytes && a.piece_bytes == b.piece_bytes;
}

// Whether the facts describe a slot within the limits of the protocol. A tier refuses other facts.
inline bool plausible(const ChunkFacts& facts) {
  return facts.payload_bytes > 0 && facts.payload_bytes <= protocol::kMaxPayloadBytes &&
         facts.piece_bytes > 0 && facts.piece_bytes <= protocol::kMaxPieceBytes &&
         facts.payload_bytes % facts.piece_bytes == 0;
}

// The caller's name for an operation; its messages carry the same ticket.
using Ticket = std::uint64_t;

enum class Operation : std::uint8_t { kPut, kGet, kDrop, kClear, kFlush, kProbe };
inline constexpr std::size_t kOperations = 6;
inline constexpr std::size_t kMaxProbeKeys = protocol::kMaxKeysPerFetch;
inline constexpr std::uint32_t kMaxDevices = 16;

struct Message {
  enum class Kind : std::uint8_t { kDone, kReleased };
  Kind kind = Kind::kDone;
  Operation operation = Operation::kPut;
  bool slot_busy = false;  // kDone: the device still uses the slot, kReleased follows
  Ticket ticket = 0;
  Status status;              // kDone: every error is a miss
  ChunkFacts facts;           // kDone of a successful get
  std::uint64_t dropped = 0;  // kDone of a drop or clear: the number of dropped chunks
  // kDone of a successful probe: for each key, in order, whether a get would find the chunk
  std::vector<bool> there = {};
  // kDone of a failed put: if not 0, no byte was moved, because the device refuses chunks of this
  // size. Offer the chunk again from this time on.
  std::uint64_t again_ns = 0;
};

// The operations that the tier accepts now. A degraded tier reports the reason and recovers by
// itself.
struct TierState {
  bool takes_puts = true;
  bool takes_gets = true;
  // Empty without a fault. With both flags true: a partial fault, such as one of several servers.
  std::string reason;
  std::string mode = {};  // the access to the device, for people: "io_uring", "threads"
  std::uint32_t servers = 0, servers_reachable = 0;  // of a tier of several equal servers; else 0
  bool degraded() const { return !takes_puts || !takes_gets; }
};

// Counters only grow; the last block are gauges.
struct TierCounters {
  std::uint64_t puts = 0, put_bytes = 0, puts_present = 0, puts_failed = 0;
  std::uint64_t gets = 0, get_bytes = 0, gets_missed = 0, gets_failed = 0;
  std::uint64_t refused = 0;           // over a bound, or degraded
  std::uint64_t deadlines_missed = 0;  // included in the failed operations
  std::uint64_t records_corrupt = 0;   // with other bytes than stored
  std::uint64_t chunks_evicted = 0, chunks_dropped = 0, chunks_expired = 0;
  std::uint64_t written_bytes = 0, read_bytes = 0;  // to and from the device, with all overhead
  std::uint64_t times_degraded = 0;

  std::uint64_t chunks = 0, used_bytes = 0, capacity_bytes = 0, in_flight_bytes = 0;
  std::uint64_t read_window_bytes = 0,
                write_window_bytes = 0;  // the bytes that may be at the device at once
};

// Hears of the content of a tier, so that look-ups need no question to the tier. The thread of the
// tier makes one call at a time. Implementations return at once, do not throw, and call no tier.
class Residents {
 public:
  virtual ~Residents() = default;
  virtual void added(const ChunkKey& key) = 0;  // the chunk may be known already
  // The same for many chunks; implementations may batch.
  virtual void added_all(std::span<const ChunkKey> keys) {
    for (const ChunkKey& key : keys) added(key);
  }
  virtual void removed(const ChunkKey& key) = 0;  // the chunk may be unknown
  virtual void removed_all() = 0;
};

class Tier {
 public:
  virtual ~Tier() = default;

  // Stores the bytes of the slot. The newest put of a key wins; a put of a stored chunk (same
  // generation and root) costs nothing. REQUIRES: slot.size() == facts.slot_bytes(), and the slot
  // stays unchanged until the end of the operation. Refused: kInvalidArgument (implausible facts,
  // wrong size, an unaligned slot), kOutOfRange (larger than the tier ever accepts),
  // kResourceExhausted (too much in flight), kUnavailable (degraded or closed).
  virtual Status put(Ticket ticket, const ChunkKey& key, const ChunkFacts& facts,
                     std::span<const std::byte> slot, std::uint64_t deadline_ns) = 0;
  // kOutOfRange, with the setting to change: a slot of so many bytes is larger than the tier ever
  // accepts. Thread-safe.
  virtual Status takes(std::uint64_t) const { return {}; }
  // Reads the slot bytes of a chunk. The slot may be larger than the stored bytes; its content
  // after a failure is undefined. Fails with kNotFound (a miss), kDataLoss (the stored bytes are
  // another chunk; the tier forgets them), kInvalidArgument (the slot is too small).
  virtual Status get(Ticket ticket, const ChunkKey& key, std::span<std::byte> slot,
                     std::uint64_t deadline_ns) = 0;
  // Asks the device or server which keys exist, including chunks of other larderd. Before the
  // message, the found chunks are known to the other probe() and to the Residents. All keys
  // together take as many round trips as one key. Refused: kInvalidArgument (no keys), kOutOfRange
  // (more than kMaxProbeKeys), kResourceExhausted, kUnavailable.
  virtual Status probe(Ticket ticket, std::span<const ChunkKey> keys,
                       std::uint64_t deadline_ns) = 0;
  // The layout that the caller expects of the chunks of this namespace, shard and group (the hash
  // does not count). Told before a probe of such keys. A tier whose device answers a probe with yes
  // or no takes the facts of found chunks from here: generation and root are then 0.
  virtual void expect(const ChunkKey&, std::uint64_t /*payload_bytes*/,
                      std::uint64_t /*piece_bytes*/) {}
  // From the return on, no probe and no get finds an earlier put. The message follows once the drop
  // survives a restart.
  virtual Status drop_namespace(Ticket ticket, const protocol::NamespaceId& id,
                                std::uint64_t deadline_ns) = 0;
  virtual Status clear(Ticket ticket, std::uint64_t deadline_ns) = 0;
  // Done once all puts accepted before have ended, and their chunks survive a failure of the
  // machine.
  virtual Status flush(Ticket ticket, std::uint64_t deadline_ns) = 0;

  // The facts of a chunk that a get would find, from memory alone. Thread-safe; waits for no
  // device.
  virtual std::optional<ChunkFacts> probe(const ChunkKey& key) const = 0;
  // The device that a get of the chunk would use, below kMaxDevices. A device that stands still
  // delays no get of another device. Thread-safe; waits for no device.
  virtual std::uint32_t device(const ChunkKey&) const { return 0; }
  // The engine found the bytes of this generation bad: the chunk is not found again.
  virtual void forget(const ChunkKey& key, std::uint64_t generation) = 0;
  // Evicts the chunk, whatever its generation: no later get finds the chunk, and no earlier put
  // stores it. A probe may see the chunk for a moment more. No message follows. Refused:
  // kResourceExhausted (too many at once; ask again), kUnavailable (closed; or gone for now, but a
  // degraded device may have the chunk again after a restart).
  virtual Status evict(const ChunkKey& key) {
    if (const std::optional<ChunkFacts> known = probe(key)) forget(key, known->generation);
    return {};
  }

  // Readable while messages wait. take_messages() appends the messages in order and clears the
  // descriptor.
  virtual int message_fd() const = 0;
  virtual void take_messages(std::vector<Message>& out) = 0;

  virtual TierState state() const = 0;        // thread-safe
  virtual TierCounters counters() const = 0;  // thread-safe

  // Ends the tier: operations in flight have `grace_ms` to finish, the others get kUnavailable.
  // Returns false if a device still uses a slot afterwards. A closed tier accepts no operation;
  // messages can still be taken.
  virtual bool close(std::uint64_t grace_ms) = 0;
};

}  // namespace larder::tiers
