// Every bound of the contract between engine and sidecar, in one place.
//
// larderd refuses a request over a limit, names the limit (see Status) and counts the refusal in a
// metric. Every structure that grows has a limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace larder::protocol {

// Slots start at and are rounded up to this many bytes; also the unit of a digest.
inline constexpr std::size_t kSlotAlignBytes = 4096;
inline constexpr std::size_t kDigestUnitBytes = 4096;

// One control message is one SEQPACKET packet.
inline constexpr std::size_t kMaxPacketBytes = 64 * 1024;
inline constexpr std::size_t kMaxPacketFds = 5;

inline constexpr std::uint32_t kMaxSessions = 256;
inline constexpr std::uint32_t kMaxHolds = 8192;  // per session
// Per session, granted and not yet committed or disowned.
inline constexpr std::uint32_t kMaxGrants = 8192;
inline constexpr std::uint32_t kMaxKeysPerReserve = 1024;    // 16 bytes each
inline constexpr std::uint32_t kMaxGrantsPerMessage = 1024;  // COMMIT, DISOWN, BAD, ATTACHED
inline constexpr std::uint32_t kMaxKeysPerAct = 1024;        // ACT
// Per session, begun and not yet ended by FETCH_END.
inline constexpr std::uint32_t kMaxFetches = 64;
inline constexpr std::uint32_t kMaxKeysPerFetch = 1024;  // FETCH
inline constexpr std::uint32_t kMaxFetchMs = 60'000;     // a deadline that is longer counts as this
inline constexpr std::uint32_t kMaxProbes = 64;          // per session, begun and not yet answered
inline constexpr std::uint32_t kMaxKeysPerProbe = 1024;  // PROBE
inline constexpr std::uint32_t kMaxProbeMs = 10'000;     // a deadline that is longer counts as this
// Copies that the sidecar makes itself (transfer_layout.h).
inline constexpr std::uint32_t kMaxCopies = 256;  // per session, asked for and not yet ended
// Of one chunk; the engine itself copies a chunk of more.
inline constexpr std::uint32_t kMaxPiecesPerCopy = 8000;
inline constexpr std::uint32_t kMaxExports = 1024;  // allocations per session
// At most kMaxPacketFds of them descriptors.
inline constexpr std::uint32_t kMaxExportsPerMessage = 512;
inline constexpr std::uint32_t kMaxTransferTextBytes = 1024;  // the reason of a refusal
// After this the engine itself makes a copy not yet begun.
inline constexpr std::uint32_t kCopyTakenMs = 1000;
// How long a GPU may go on with a copy after its process was killed. Queued copies take
// milliseconds; the driver ends the queues of a dead process within a second or two. The price: the
// uncommitted grants of one engine stay taken for this time. A guess; see cuda/README.md.
inline constexpr std::uint32_t kDeviceSettlingMs = 3000;
inline constexpr std::uint32_t kEventSlots = 4096;  // per session, power of two, lossy
// Of one request, reported for the estimate of hit ratios.
inline constexpr std::uint32_t kMaxAskedChunks = 8192;

// Shares of the arena, as one part in so many: granted to one engine process (and not yet committed
// or given back), held by one, and pinned by all together. Holds of one process beyond its share do
// not count, in the order of its table.
inline constexpr std::uint64_t kSessionGrantedShare = 2;
inline constexpr std::uint64_t kSessionHeldShare = 2;
inline constexpr std::uint64_t kPinnedShare = 2;
// The longest time of a keep.
inline constexpr std::uint32_t kMaxKeepS = 24 * 3600;
// The share of the arena that larderd keeps for all fetches together.
inline constexpr std::uint64_t kFetchedShare = 4;
// The part of the free fetch share that one session leaves to others, besides its first family.
inline constexpr std::uint64_t kFetchedLeftShare = 16;

inline constexpr std::uint32_t kMaxNamespaces = 1024;  // per index
// That one engine has open: its own and one for each adapter.
inline constexpr std::uint32_t kMaxClientNamespaces = 64;
inline constexpr std::uint32_t kMaxGroups = 16;   // KV groups of one namespace
inline constexpr std::uint32_t kMaxShards = 256;  // shards of one namespace
inline constexpr std::size_t kMaxFingerprintBytes = 48 * 1024;
inline constexpr std::size_t kMaxNameBytes = 128;  // engine and model names, shown to people only

inline constexpr std::uint64_t kMaxPieceBytes = 64ULL << 20;
inline constexpr std::uint64_t kMaxPayloadBytes = 1ULL << 30;

// Lookup: cells of one bucket, and how often a torn read is repeated before it counts as a miss.
inline constexpr std::uint32_t kBucketCells = 8;
inline constexpr int kProbeRetries = 3;

// Liveness. The engine's native thread beats. A session that is silent for longer than the timeout
// loses its holds, and its grants are quarantined.
inline constexpr std::uint32_t kHeartbeatIntervalMs = 100;
inline constexpr std::uint32_t kHeartbeatTimeoutMs = 2000;
// The sidecar closes a connection whose handshake is not finished by then; an engine waits this
// long for each answer of a handshake.
inline constexpr std::uint32_t kHandshakeTimeoutMs = 2000;

// Ages. A hold that stands unchanged for longer no longer counts.
inline constexpr std::uint32_t kMaxHoldAgeMs = 60'000;
// The sidecar asks an engine about grants of this age, asks again after the same time, and
// quarantines grants without an answer in kGrantAnswerMs.
inline constexpr std::uint32_t kGrantAgeMs = 30'000;
inline constexpr std::uint32_t kGrantAnswerMs = 2000;
// When asked, an engine gives back the grants of a store that began longer ago and is not finished.
inline constexpr std::uint32_t kMaxStoreAgeMs = 120'000;

}  // namespace larder::protocol
