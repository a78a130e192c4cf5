// The control messages: fixed little-endian structs, one message a SEQPACKET packet. PROTOCOL.md is
// the grammar.
//
// A message is a MessageHeader, the fixed struct of its type, then `count` records if the struct
// has a count. Receivers copy into locals before they check (codec.h). A receiver ignores bytes
// behind the fields that it knows, so a minor version can add fields.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "shim/protocol/key.h"
#include "shim/protocol/limits.h"

namespace larder::protocol {

inline constexpr std::uint32_t kMessageMagic = 0x3152444c;  // "LDR1"

enum class MessageType : std::uint16_t {
  kHello = 1,  // engine -> sidecar, first
  // sidecar -> engine, with descriptors: arena, index, session, lock and, by capability,
  // residency filter
  kWelcome = 2,
  // engine -> sidecar: mapped, lock taken; lists grants of the earlier session that are still being
  // written
  kAttached = 3,
  kOpenNamespace = 4,   // engine -> sidecar
  kNamespace = 5,       // sidecar -> engine
  kReserve = 6,         // engine -> sidecar
  kGranted = 7,         // sidecar -> engine
  kCommit = 8,          // engine -> sidecar, one way
  kDisown = 9,          // engine -> sidecar, one way
  kBad = 10,            // engine -> sidecar, one way
  kDropNamespace = 11,  // engine -> sidecar, one way: the engine's weights or cache were reset
  kError = 12,          // sidecar -> engine, last: why the session ends
  kFetch = 13,  // engine -> sidecar, with capability residency: promote these chunks and keep them
  kFetched = 14,    // sidecar -> engine: the number of families, from the first on, in memory now
  kAskGrants = 15,  // sidecar -> engine, since 1.1: are these old grants still being written?
  kStillWriting =
      16,  // engine -> sidecar, one way: these grants are; the engine disowns the others
  // engine -> sidecar, with the capability: prefetch, pin, unpin, evict, demote or keep
  kAct = 17,
  kActed = 18,  // sidecar -> engine
  // engine -> sidecar, one way: free the kept chunks of a FETCH, or end a running FETCH
  kFetchEnd = 19,
  // engine -> sidecar, with capability shared: how much would a FETCH find,
  // also in the shared backend?
  kProbe = 20,
  kProbed = 21,  // sidecar -> engine: the number of families, and the speed of a FETCH
  // transfer_messages.h, with capability transfer.
  // engine -> sidecar, with descriptors: copy in this memory;
  // or the reason why the engine exports none
  kExport = 22,
  // sidecar -> engine, with the transfer region: the memory is open; or the reason why not
  kExported = 23,
  kWithdraw = 24,   // engine -> sidecar: close all exported memory, which is about to go
  kWithdrawn = 25,  // sidecar -> engine: no copy uses the memory, and all of it is closed
  kCopy = 26,       // engine -> sidecar: answered by a flag of the transfer region
  // engine -> sidecar, one way, since 1.6: this session no longer uses the namespace
  kCloseNamespace = 27,
};

// Capability bits.
inline constexpr std::uint64_t kCapabilityAct = 1;
// HELLO: the engine takes a fifth descriptor, the residency filter. WELCOME: the descriptor is
// there, and FETCH reads from a tier below memory.
inline constexpr std::uint64_t kCapabilityResidency = 2;
// WELCOME: FETCH also reads from a backend that other larderd write to. The residency filter does
// not show the backend; PROBE asks about it.
inline constexpr std::uint64_t kCapabilityShared = 4;
// WELCOME, since 1.5: the sidecar copies in memory that an engine exports (transfer_messages.h).
inline constexpr std::uint64_t kCapabilityTransfer = 8;

struct MessageHeader {
  std::uint32_t magic;
  std::uint16_t type;
  std::uint16_t flags;       // 0
  std::uint32_t body_bytes;  // behind the header
  // Chosen by the engine, echoed in the answer; 0 in a message without an answer.
  std::uint32_t request;
};
static_assert(sizeof(MessageHeader) == 16);

// A text field, not terminated; the first `bytes` bytes count.
struct ShortText {
  std::uint32_t bytes;
  char text[kMaxNameBytes];
};
static_assert(sizeof(ShortText) == 132);

struct Hello {
  std::uint32_t version_major;
  std::uint32_t version_minor;
  std::uint64_t capabilities;
  std::uint64_t previous_session;  // token of this engine's earlier session, or 0
  std::uint64_t previous_epoch;
  ShortText engine;  // for display, such as "vllm 0.32.0 worker 0"
  std::uint8_t reserved[28];
};
static_assert(sizeof(Hello) == 192);

struct Welcome {
  std::uint32_t version_major;
  std::uint32_t version_minor;
  std::uint64_t capabilities;
  std::uint64_t epoch;
  std::uint64_t session_token;
  std::uint32_t session_number;
  std::uint32_t heartbeat_interval_ms;
  std::uint32_t heartbeat_timeout_ms;
  std::uint32_t max_grants;
  std::uint64_t arena_bytes;
  std::uint64_t index_bytes;
  std::uint64_t session_bytes;
  std::uint64_t arena_page_bytes;  // 4 KiB, 2 MiB or 1 GiB
  std::uint64_t residency_bytes;   // since 1.2: of the residency filter; 0: there is none
  std::uint8_t reserved[40];
};
static_assert(sizeof(Welcome) == 128);

// A slot at one generation, as in DISOWN, BAD and ATTACHED.
struct SlotRef {
  std::uint32_t slot;
  std::uint32_t reserved;
  std::uint64_t generation;
};
static_assert(sizeof(SlotRef) == 16);

struct Attached {  // followed by SlotRef[count]
  std::uint32_t count;
  std::uint32_t reserved;
};

// One KV group of a namespace: its part of a chunk has pieces_per_chunk pieces of piece_bytes each.
struct GroupLayout {
  std::uint64_t piece_bytes;
  std::uint32_t pieces_per_chunk;
  std::uint32_t reserved;
};
static_assert(sizeof(GroupLayout) == 16);

// Followed by GroupLayout[group_count], text_bytes of fingerprint and, since 1.1, a
// NamespaceShards.
struct OpenNamespace {
  NamespaceId id;  // must be the hash of the text
  std::uint32_t group_count;
  std::uint32_t shard_count;
  std::uint32_t chunk_tokens;
  std::uint32_t text_bytes;
  ShortText model;  // served name: a metric label, for display
  std::uint32_t reserved;
};
static_assert(sizeof(OpenNamespace) == 168);

// The shards that the groups of an OPEN_NAMESPACE describe. In a pipeline each stage has other
// layers. Followed by part_words words, since 1.8.
struct NamespaceShards {
  std::uint32_t layout_shard;  // 0: all shards; n + 1: shard n alone
  std::uint32_t part_words;    // 0: a chunk has a part in each shard and group
};
static_assert(sizeof(NamespaceShards) == 8);

// A part of a chunk is one shard's pieces of one group. The parts that this sidecar keeps, a bit
// each: a stage may have no layer of a group, and ranks on other nodes have a sidecar of their own.
inline constexpr std::uint32_t kMaxPartWords = kMaxShards * kMaxGroups / 64;
constexpr std::uint32_t part_words(std::size_t shards, std::size_t groups) {
  return static_cast<std::uint32_t>((shards * groups + 63) / 64);
}
constexpr std::size_t part_bit(std::size_t shard, std::size_t group, std::size_t groups) {
  return shard * groups + group;
}
constexpr bool has_part(std::span<const std::uint64_t> words, std::size_t bit) {
  return words.empty() || (words[bit / 64] >> bit % 64 & 1) != 0;
}

struct
    Namespace {  // followed by text_bytes: the difference to the most similar namespace, or empty
  std::uint32_t handle;
  std::uint32_t text_bytes;
};

// Followed by BlockHash[count], the chunks, and since 1.9 by BlockHash[parents]: for each chunk the
// hash of the chunk before it in its prompt (all zero: none). `parents` is 0 or `count`.
struct Reserve {
  std::uint32_t namespace_handle;
  std::uint16_t shard;
  std::uint16_t group;
  std::uint32_t count;
  std::uint32_t parents;
};
static_assert(sizeof(Reserve) == 16);

enum class GrantStatus : std::uint32_t {
  kGranted = 0,  // write the chunk, then COMMIT or DISOWN
  kPresent = 1,  // the chunk is stored
  kPending = 2,  // another session writes the chunk
  kNoSpace = 3,  // no chunk can be evicted now
  kRefused = 4,  // over a bound of this session, or the namespace is gone
};

struct Grant {
  std::uint32_t status;
  std::uint32_t slot;
  std::uint64_t generation;
  std::uint64_t offset_bytes;  // in the arena
};
static_assert(sizeof(Grant) == 24);

struct Granted {  // followed by Grant[count], in the order of the keys asked
  std::uint32_t count;
  std::uint32_t reserved;
};

struct CommitRecord {
  std::uint32_t slot;
  std::uint32_t reserved;
  std::uint64_t generation;
  std::uint64_t root;
};
static_assert(sizeof(CommitRecord) == 24);

// COMMIT: followed by CommitRecord[count].
// DISOWN, BAD, ASK_GRANTS and STILL_WRITING: by SlotRef[count].
struct SlotList {
  std::uint32_t count;
  std::uint32_t reserved;
};

struct DropNamespace {
  std::uint32_t namespace_handle;
  std::uint32_t reserved;
};

// Flag of CLOSE_NAMESPACE: the last session to close the namespace drops the chunks from memory.
inline constexpr std::uint32_t kCloseDrop = 1;

struct CloseNamespace {
  std::uint32_t
      opened_by;        // request of the OPEN_NAMESPACE, so the engine need not wait for the answer
  std::uint32_t flags;  // kCloseDrop; other bits are ignored
};

enum class Verb : std::uint32_t {
  kPrefetch = 1,  // promote into memory; a chunk in memory counts as just used
  kPin = 2,       // keep until unpinned, evicted or dropped
  kUnpin = 3,
  kEvict = 4,  // out of memory, pinned or not
  // Since 1.7: promote the last hash of which all chunks can be reached, and no other. For
  // recurrent states, of which a hit needs the last one.
  kPrefetchLast = 5,
  // Since 1.10: out of memory before all other chunks, unless used in the meantime. The hashes of a
  // prompt stand in its order.
  kDemote = 6,
  // Since 1.11: a pin that ends by itself after keep_s.
  kKeep = 7,
};

// For display; empty for an unknown verb.
constexpr std::string_view verb_name(Verb verb) {
  switch (verb) {
    case Verb::kPrefetch: return "prefetch";
    case Verb::kPin: return "pin";
    case Verb::kUnpin: return "unpin";
    case Verb::kEvict: return "evict";
    case Verb::kPrefetchLast: return "prefetch last";
    case Verb::kDemote: return "demote";
    case Verb::kKeep: return "keep";
  }
  return "";
}

struct Act {  // followed by BlockHash[count]: each means the chunks of all shards and groups
  std::uint32_t namespace_handle;
  std::uint32_t verb;
  std::uint32_t count;
  std::uint32_t keep_s;  // of kKeep, 1 to kMaxKeepS; else 0
};
static_assert(sizeof(Act) == 16);

struct Acted {
  std::uint32_t verb;
  std::uint32_t found;    // hashes with all chunks present, for which the verb was done
  std::uint32_t absent;   // hashes with a missing chunk
  std::uint32_t refused;  // present, but over a bound
};
static_assert(sizeof(Acted) == 16);

// The sum of the counts of several ACTED. Not a message.
struct ActCounts {
  std::uint64_t found = 0;
  std::uint64_t absent = 0;
  std::uint64_t refused = 0;

  // All asked hashes.
  std::uint64_t all() const { return found + absent + refused; }
  ActCounts& operator+=(const ActCounts& more) {
    found += more.found;
    absent += more.absent;
    refused += more.refused;
    return *this;
  }
};

// Followed by BlockHash[count], in the order of the prompt: each means the chunks of all shards and
// groups.
struct Fetch {
  std::uint32_t namespace_handle;
  std::uint32_t deadline_ms;  // from now; the answer counts the chunks that have arrived by then
  std::uint32_t count;
  std::uint32_t reserved;
};
static_assert(sizeof(Fetch) == 16);

// The reason for the length of a fetched prefix.
enum class FetchEnd : std::uint32_t {
  kAll = 0,
  kAbsent = 1,  // the next family is neither in memory nor below
  kLate = 2,    // the deadline came first
  kNoRoom = 3,  // the whole arena is held, pinned or being written
  kFailed = 4,  // the tier failed to read, or takes no reads now
  kBound = 5,   // too many fetches of this session, or more bytes than larderd keeps
};

// From the answer on, until FETCH_END, the session's end or kMaxHoldAgeMs,
// larderd keeps these families in memory.
struct Fetched {
  std::uint32_t families;    // from the first on: whole in memory
  std::uint32_t reason;      // FetchEnd
  std::uint64_t bytes;       // read for the fetch
  std::uint32_t elapsed_us;  // UINT32_MAX: as long or longer
  std::uint32_t reserved;
};
static_assert(sizeof(Fetched) == 24);

struct EndFetch {         // FETCH_END
  std::uint32_t request;  // of the FETCH
  std::uint32_t reserved;
};

// Flag of PROBE, since 1.7: the answer tells of each hash by itself, in ProbedEach. An older
// sidecar ignores the flag, so an engine asks this of a sidecar of 1.7 alone.
inline constexpr std::uint32_t kProbeEach = 1;

struct Probe {  // followed by BlockHash[count], as in Fetch
  std::uint32_t namespace_handle;
  std::uint32_t deadline_ms;  // from now; the answer counts the chunks known by then
  std::uint32_t count;
  std::uint32_t flags;  // kProbeEach; other bits are ignored
};

// The reason for the length of a probed prefix.
enum class ProbeEnd : std::uint32_t {
  // The backend was asked about all missing chunks, or all chunks are in memory or on the disk.
  kAll = 0,
  kLate = 1,    // the deadline came first
  kFailed = 2,  // the backend could not be asked, or takes no reads now
  kBound = 3,   // too many probes of this session, or more keys than one probe asks for
};

// A hint, like the residency filter: a chunk may be gone when it is fetched.
struct Probed {
  std::uint32_t families;         // from the first on: in memory, or in a tier that a FETCH reads
  std::uint32_t shared;           // the part of `families` that a FETCH would read from the backend
  std::uint64_t read_latency_ns;  // of a FETCH of the families that are not in memory; measured
  std::uint64_t
      read_bytes_per_s;      // of the same FETCH; measured. 0: no reads, or not to be relied on now
  std::uint32_t elapsed_us;  // UINT32_MAX: as long or longer
  std::uint32_t reason;      // ProbeEnd
};

// Behind Probed, in the answer to a PROBE with kProbeEach. `families` is then the number of the
// last family that a FETCH finds, counted from 1; `shared` is 1 if the FETCH would read that family
// from the backend, and the speed is that of a FETCH of that family alone.
struct ProbedEach {
  // Bit i % 64 of word i / 64: a FETCH finds hash i.
  std::array<std::uint64_t, kMaxKeysPerProbe / 64> there;
};
static_assert(sizeof(Probe) == 16 && sizeof(Probed) == 32 && sizeof(ProbedEach) == 128);

struct Error {         // followed by text_bytes of text
  std::uint32_t code;  // larder::Code
  std::uint32_t text_bytes;
};

static_assert(sizeof(Attached) == 8 && sizeof(Namespace) == 8 && sizeof(Granted) == 8 &&
              sizeof(SlotList) == 8 && sizeof(DropNamespace) == 8 && sizeof(CloseNamespace) == 8 &&
              sizeof(Error) == 8 && sizeof(EndFetch) == 8);
static_assert(std::is_trivially_copyable_v<Hello> && std::is_trivially_copyable_v<Welcome>);
static_assert(sizeof(MessageHeader) + sizeof(Reserve) +
                  2 * kMaxKeysPerReserve * sizeof(BlockHash) <=
              kMaxPacketBytes);
static_assert(sizeof(MessageHeader) + sizeof(Act) + kMaxKeysPerAct * sizeof(BlockHash) <=
              kMaxPacketBytes);
static_assert(sizeof(MessageHeader) + sizeof(Fetch) + kMaxKeysPerFetch * sizeof(BlockHash) <=
              kMaxPacketBytes);
static_assert(sizeof(MessageHeader) + sizeof(Probe) + kMaxKeysPerProbe * sizeof(BlockHash) <=
              kMaxPacketBytes);
static_assert(sizeof(MessageHeader) + sizeof(SlotList) +
                  kMaxGrantsPerMessage * sizeof(CommitRecord) <=
              kMaxPacketBytes);
static_assert(sizeof(MessageHeader) + sizeof(Granted) + kMaxKeysPerReserve * sizeof(Grant) <=
              kMaxPacketBytes);
static_assert(sizeof(MessageHeader) + sizeof(OpenNamespace) + kMaxGroups * sizeof(GroupLayout) +
                  kMaxFingerprintBytes + sizeof(NamespaceShards) +
                  kMaxPartWords * sizeof(std::uint64_t) <=
              kMaxPacketBytes);

}  // namespace larder::protocol
