// Every bound of the contract between engine and sidecar, in one place.
//
// A limit that is exceeded is refused by name (see Status) and counted in a metric; nothing grows without one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace larder::protocol {

// Slots start at and are rounded up to this many bytes; also the unit of a digest.
inline constexpr std::size_t kSlotAlignBytes = 4096;
inline constexpr std::size_t kDigestUnitBytes = 4096;

// One control message is one SEQPACKET datagram.
inline constexpr std::size_t kMaxPacketBytes = 64 * 1024;
inline constexpr std::size_t kMaxPacketFds = 5;

inline constexpr std::uint32_t kMaxSessions = 256;
inline constexpr std::uint32_t kMaxHolds = 8192;             // per session
inline constexpr std::uint32_t kMaxGrants = 8192;            // per session, granted and not yet committed or disowned
inline constexpr std::uint32_t kMaxKeysPerReserve = 1024;    // 16 bytes each
inline constexpr std::uint32_t kMaxGrantsPerMessage = 1024;  // COMMIT, DISOWN, BAD, ATTACHED
inline constexpr std::uint32_t kMaxKeysPerAct = 1024;        // ACT
inline constexpr std::uint32_t kMaxFetches = 64;             // per session, begun and not yet ended by FETCH_END
inline constexpr std::uint32_t kMaxKeysPerFetch = 1024;      // FETCH
inline constexpr std::uint32_t kMaxFetchMs = 60'000;         // a deadline that is longer counts as this
inline constexpr std::uint32_t kMaxProbes = 64;              // per session, begun and not yet answered
inline constexpr std::uint32_t kMaxKeysPerProbe = 1024;      // PROBE
inline constexpr std::uint32_t kMaxProbeMs = 10'000;         // a deadline that is longer counts as this
// Copies that the sidecar makes itself (transfer_layout.h).
inline constexpr std::uint32_t kMaxCopies = 256;              // per session, asked for and not yet ended
inline constexpr std::uint32_t kMaxPiecesPerCopy = 8000;      // one chunk's; of more the engine copies by itself
inline constexpr std::uint32_t kMaxExports = 1024;            // allocations per session
inline constexpr std::uint32_t kMaxExportsPerMessage = 512;   // of these, descriptors at most kMaxPacketFds
inline constexpr std::uint32_t kMaxTransferTextBytes = 1024;  // why not
inline constexpr std::uint32_t kCopyTakenMs = 1000;           // a copy that is not begun by then the engine makes itself
// A GPU may go on with a copy for so long after its process was killed: what was queued at once takes milliseconds; the driver ends a dead
// process's queues within a second or two. It costs one engine's grants that were not committed, so much longer. A guess; see cuda/README.md.
inline constexpr std::uint32_t kDeviceSettlingMs = 3000;
inline constexpr std::uint32_t kEventSlots = 4096;      // per session, power of two, lossy
inline constexpr std::uint32_t kMaxAskedChunks = 8192;  // of a request that are told of, for the estimate

// What one engine process may keep from the others: at most one part in so many of the arena granted to it (and not yet committed
// or given back), held by it, or pinned by all of them. Of what it holds above that the rest does not count, in the order of its
// table.
inline constexpr std::uint64_t kSessionGrantedShare = 2;
inline constexpr std::uint64_t kSessionHeldShare = 2;
inline constexpr std::uint64_t kPinnedShare = 2;
// What larderd keeps for all fetches together, at most one part in so many of the arena.
inline constexpr std::uint64_t kFetchedShare = 4;
// Of what no other session has of that, one leaves the next at least one part in so many, but for its first family.
inline constexpr std::uint64_t kFetchedLeftShare = 16;

inline constexpr std::uint32_t kMaxNamespaces = 1024;      // per index
inline constexpr std::uint32_t kMaxClientNamespaces = 64;  // that one engine has open: its own and one for each adapter
inline constexpr std::uint32_t kMaxGroups = 16;            // KV groups of one namespace
inline constexpr std::uint32_t kMaxShards = 256;           // shards of one namespace
inline constexpr std::size_t kMaxFingerprintBytes = 48 * 1024;
inline constexpr std::size_t kMaxNameBytes = 128;  // engine and model names, shown to people only

inline constexpr std::uint64_t kMaxPieceBytes = 64ULL << 20;
inline constexpr std::uint64_t kMaxPayloadBytes = 1ULL << 30;

// Lookup: cells of one bucket, and how often a torn read is repeated before it counts as a miss.
inline constexpr std::uint32_t kBucketCells = 8;
inline constexpr int kProbeRetries = 3;

// Liveness. The engine's native thread beats; a session silent for longer loses its holds and its grants are quarantined.
inline constexpr std::uint32_t kHeartbeatIntervalMs = 100;
inline constexpr std::uint32_t kHeartbeatTimeoutMs = 2000;
// A connection that has not finished the handshake by then is closed.
inline constexpr std::uint32_t kHandshakeTimeoutMs = 2000;

// Ages. A hold that has stood unchanged for longer does not count any more.
inline constexpr std::uint32_t kMaxHoldAgeMs = 60'000;
// The sidecar asks an engine about grants that are older (and again after as long), and quarantines those it is not answered about
// in time.
inline constexpr std::uint32_t kGrantAgeMs = 30'000;
inline constexpr std::uint32_t kGrantAnswerMs = 2000;
// Asked, an engine gives back what it was granted for a store that was begun longer ago and that nobody has finished.
inline constexpr std::uint32_t kMaxStoreAgeMs = 120'000;

}  // namespace larder::protocol
