// Stats: the counters and gauges of larderd as plain data. The event loop owns and fills one
// object; readers get copies.
//
// Counters only grow within one run of larderd; gauges are current values. Names contain the unit.
// Rooms that measure include this header; the HTTP room turns a copy into metrics and JSON.
// Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace larder::stats {

// A histogram: the bounds of the buckets grow by the factor four from kFirst on; a last bucket has
// all larger values.
template <std::uint64_t kFirst, std::size_t kCount>
class PowersOfFour {
 public:
  static constexpr std::size_t kBuckets = kCount;
  static constexpr std::uint64_t bound(std::size_t bucket) { return kFirst << (2 * bucket); }

  void record(std::uint64_t value) { record(value, 1, value); }
  // Records `times` values in the bucket of `value`. `sum`: the sum of these values.
  void record(std::uint64_t value, std::uint64_t times, std::uint64_t sum) {
    std::size_t bucket = 0;
    while (bucket < kBuckets && value > bound(bucket)) ++bucket;
    counts_[bucket] += times;
    sum_ += sum;
  }
  // The observations in this bucket alone; bucket kBuckets has the observations above the last
  // bound.
  std::uint64_t count(std::size_t bucket) const { return counts_[bucket]; }
  std::uint64_t total() const {
    std::uint64_t total = 0;
    for (const std::uint64_t count : counts_) total += count;
    return total;
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::array<std::uint64_t, kBuckets + 1> counts_{};
  std::uint64_t sum_ = 0;
};
using Histogram = PowersOfFour<1000, 14>;                // ns: 1 us to about 67 s
using AgeHistogram = PowersOfFour<1000, 11>;             // ms: 1 s to about 12 days
using DistanceHistogram = PowersOfFour<1ULL << 20, 13>;  // bytes: 1 MiB to 16 TiB

struct NamespaceStats {
  std::string id;     // 32 hex digits
  std::string model;  // served name
  // Canonical text, up to 48 KiB: shared by all copies.
  std::shared_ptr<const std::string> fingerprint;
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  std::uint32_t sessions = 0;
};

struct SessionStats {
  std::uint32_t number = 0;
  std::string engine;
  std::string namespace_id;  // empty before one is open
  bool silent = false;       // without a heartbeat
  std::uint32_t holds = 0;
  std::uint32_t grants = 0;
  std::uint64_t held_bytes = 0;  // of counting holds
  std::uint64_t granted_bytes = 0;
  bool sidecar_copies = false;  // larderd copies for the session, not the engine
  std::string transfer_reason = {},
              transfer_why = {};  // why larderd does not copy, as a name and in words
  // As an engine with pages on a GPU reports: the bytes of the arena registered with the GPU, and
  // the way of its copies in words. Empty without a GPU.
  std::uint64_t registered_bytes = 0;
  std::string copies_by = {};
};

// Copies by larderd (transfer: sidecar). Counters of chunks and of opened allocations; `open` is a
// gauge.
struct TransferStats {
  std::uint64_t stores = 0, loads = 0, failed = 0, bytes = 0, opened = 0, open = 0;
};

// The extents of one slot size.
inline constexpr std::size_t kMaxSlotSizes = 16;
struct SlotSizeStats {
  std::uint64_t slot_bytes = 0;
  std::uint64_t extents = 0;
  std::uint64_t slots = 0, used = 0;  // used: every slot that is not free
};

// Requests of one served model name. The label is bounded: the loop keeps at most kMaxModels names;
// others count as "other".
inline constexpr std::size_t kMaxModels = 32;
struct ModelStats {
  std::string model;
  std::uint64_t requests = 0, requests_hit = 0;
  std::uint64_t tokens_asked = 0, tokens_hit = 0;
  std::uint64_t bytes_loaded = 0, bytes_stored = 0;
  std::uint64_t prefill_tokens = 0, prefill_ns = 0;  // computed by the engines
  std::uint64_t requests_short = 0;   // requests without a hit, for less than a chunk
  std::uint64_t requests_salted = 0;  // with a cache_salt: they hit only chunks with the same salt
  // The prefill time that hits saved, at the engine speed known at the hit. Tokens of hits before
  // the first known speed wait in tokens_not_valued.
  std::uint64_t prefill_saved_ns = 0, tokens_not_valued = 0;
};

// The decision of an engine about a request, the label `decision`.
inline constexpr std::array<const char*, 5> kDecisions{"load", "fetch", "recompute", "absent",
                                                       "unknown"};

// The hit ratio with another amount of memory (sidecar/sizing).
struct EstimatedHit {
  const char* size;  // the label: a multiple of the configured memory
  double factor;
  double ratio;  // of requested tokens
};
struct Estimate {
  std::array<EstimatedHit, 4> hits{{{"0.5", 0.5, 0}, {"1", 1, 0}, {"2", 2, 0}, {"4", 4, 0}}};
  std::uint64_t chunks_asked = 0, chunks_sampled = 0;  // counters
  std::uint64_t chunks_tracked = 0;                    // gauge: chunks with a known last use
  double sampling_ratio = 1;                           // gauge
  DistanceHistogram reuse_distance;  // of all requested chunks, scaled up from the sample
};

// A lower tier. Counters without a unit in the name count chunks.
struct TierStats {
  // The directory of the disk, the address of the backend; empty without the tier.
  std::string place;
  std::string mode;  // io_uring, threads; TCP, TLS, Unix socket
  bool takes_puts = true, takes_gets = true;
  std::string reason;  // why the tier is degraded
  std::uint64_t capacity_bytes = 0, used_bytes = 0, chunks = 0, in_flight_bytes = 0,
                write_queue = 0;  // gauges
  std::uint64_t puts = 0, put_bytes = 0, puts_failed = 0;
  std::uint64_t gets = 0, get_bytes = 0, gets_missed = 0, gets_failed = 0;
  std::uint64_t refused = 0, deadlines_missed = 0, records_corrupt = 0, not_queued = 0;
  std::uint64_t evicted_capacity = 0, evicted_dropped = 0, evicted_expired = 0;
  std::uint64_t written_bytes = 0, read_bytes = 0;  // to and from the device, with all overhead
  std::uint64_t read_window_bytes = 0,
                write_window_bytes = 0;  // gauges: bytes that may be at the device at once
  std::uint64_t times_degraded = 0;
  Histogram get_time, put_time;  // of one successful operation, from the request to the message
  // As published to engines: whether the tier answers in time, and its speed.
  bool serving = false;
  std::uint64_t read_latency_ns = 0, read_bytes_per_s = 0;
  std::uint64_t servers = 0,
                servers_reachable = 0;  // of a tier of several equal servers, such as peers; else 0
};

// Counts of chunks served to peers.
struct PeerServingStats {
  std::string address;                                               // empty: no peer is served
  std::uint64_t connections = 0, peers = 0, held_bytes = 0;          // gauges
  std::uint64_t accepted = 0, refused = 0, broken = 0, stalled = 0;  // connections
  std::uint64_t probes = 0, keys = 0, keys_found = 0, gets = 0, gets_missed = 0, sent_bytes = 0;
};

// E.g. {"hugepages", "4 KiB pages: 3 of 2560 huge pages are free"}.
struct Fallback {
  std::string kind, why;
  std::uint64_t times = 0;  // how often the reason was met; 0: not counted
};

struct Stats {
  std::string version;
  std::string pool;
  std::uint64_t epoch = 0;
  std::uint64_t uptime_ms = 0;
  std::uint64_t log_lines_dropped = 0;  // of this process and its supervisor

  // Memory tier.
  std::uint64_t arena_bytes = 0, touched_bytes = 0, used_bytes = 0;
  std::uint64_t arena_page_bytes = 0;
  // The NUMA binding of the arena: "node 1", "nodes 0-1 interleaved".
  std::string arena_numa = "none";
  std::uint64_t unused_bytes = 0;  // touched, outside of extents
  std::uint64_t pinned_bytes = 0;
  std::uint64_t kept_bytes = 0;           // of slots that larderd itself keeps
  std::vector<SlotSizeStats> slot_sizes;  // at most kMaxSlotSizes of the sizes in use
  std::uint64_t slots_free = 0;           // in extents
  std::uint64_t slots_granted = 0, slots_committed = 0, slots_quarantined = 0;
  std::uint64_t slots_pinned = 0;  // of the committed slots
  // Hints "keep": the kept chunks, and the hashes (counter) that were over the share.
  std::uint64_t keep_slots = 0, keep_bytes = 0, keep_refused = 0;
  std::uint64_t chunks_committed = 0;  // counter
  std::uint64_t chunks_promoted = 0;   // counter: from lower tiers
  std::uint64_t evicted_capacity = 0, evicted_dropped = 0, evicted_bad = 0, evicted_resized = 0;
  // Chunks that were evicted for room or for another size and are in no tier: wanted by a tier, but
  // not written in time; not wanted (seen too seldom, too old, too large).
  std::uint64_t evicted_unwritten = 0, evicted_not_admitted = 0;

  TierStats disk, peers, backend;
  PeerServingStats peer_serving;

  // The warm restart: chunks kept from the earlier larderd, and invalid chunks.
  std::uint64_t restored_chunks = 0, restore_dropped = 0;

  // Refusals: RESERVE with the replies no space, no space but for the head of the same prompt, cap,
  // present, pending; COMMIT by another session or generation.
  std::uint64_t refused_no_space = 0, refused_own_prompt = 0, refused_cap = 0, reserve_present = 0,
                reserve_pending = 0, refused_commit = 0;
  std::uint64_t disowned = 0;

  // Ages and caps: holds that stopped counting by age, and by the cap of their session; grants that
  // engines were asked about, grants that were quarantined without an answer, and grants that an
  // engine did not name when it attached again.
  std::uint64_t holds_expired = 0, holds_over_cap = 0;
  std::uint64_t grants_asked = 0, grants_unanswered = 0, grants_reclaimed = 0;

  // Promotion: fetches, fetches cut short by a deadline, families that became complete in memory,
  // bytes read, and failed reads; and the fetches that run or keep chunks.
  std::uint64_t fetches = 0, fetches_late = 0, fetch_hits = 0, promoted_bytes = 0,
                promotions_failed = 0;
  std::uint64_t fetches_kept = 0;  // gauge
  // Probes of a shared backend. Late: the deadline passed before the reply. Failed: the backend
  // could not be asked.
  std::uint64_t probes = 0, probes_late = 0, probes_failed = 0, probe_hits = 0,
                probe_hits_shared = 0;

  // Hashes in verbs of engines and admins.
  std::uint64_t asked_to_prefetch = 0, asked_to_pin = 0, asked_to_unpin = 0, asked_to_evict = 0,
                asked_to_demote = 0, asked_to_keep = 0;

  // Chunks with bytes that do not match the root: reports of engines, and reports that larderd
  // confirmed.
  std::uint64_t bad_reported = 0, bad_confirmed = 0, checksum_failures = 0, loads_failed = 0,
                events_lost = 0;

  // Sessions.
  std::uint64_t sessions_opened = 0, sessions_ended = 0, sessions_refused = 0, protocol_errors = 0,
                heartbeats_missed = 0;
  std::uint64_t holds = 0, grants = 0, held_bytes = 0, granted_bytes = 0;  // gauges
  // Closed namespaces; namespaces whose chunks were evicted for their place; namespaces that were
  // refused without a place.
  std::uint64_t namespaces_given_back = 0, namespaces_evicted = 0, namespaces_refused = 0;

  Histogram lookup, load_wait, load_copy, store_copy, reserve;
  std::uint64_t loads = 0, stored = 0;                       // successful, by engines
  std::array<std::uint64_t, kDecisions.size()> decisions{};  // requests by decision
  AgeHistogram age_at_eviction;  // since the last use, of chunks evicted for room
  Estimate estimate;
  Histogram probe;  // of probes that asked the backend

  TransferStats transfer;
  std::vector<ModelStats> models;
  std::vector<NamespaceStats> namespaces;
  std::vector<SessionStats> sessions;
  std::vector<Fallback> fallbacks;  // in force
};

}  // namespace larder::stats
