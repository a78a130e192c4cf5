// Stats: what the sidecar counts, as plain data. The event loop owns and fills one; readers get copies.
//
// Counters only grow within one life of the sidecar; gauges are what is true now. Units stand in the names. Rooms that measure
// depend on this header; the HTTP room turns a copy into metrics and JSON. Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace larder::stats {

// Counts of values by size: buckets whose bounds grow by four from kFirst on, then everything above.
template <std::uint64_t kFirst, std::size_t kCount>
class PowersOfFour {
 public:
  static constexpr std::size_t kBuckets = kCount;
  static constexpr std::uint64_t bound(std::size_t bucket) { return kFirst << (2 * bucket); }

  void record(std::uint64_t value) { record(value, 1, value); }
  // `times` values in the bucket of `value`, which sum up to `sum`.
  void record(std::uint64_t value, std::uint64_t times, std::uint64_t sum) {
    std::size_t bucket = 0;
    while (bucket < kBuckets && value > bound(bucket)) ++bucket;
    counts_[bucket] += times;
    sum_ += sum;
  }
  // Observations in this bucket alone; bucket kBuckets holds those above the last bound.
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
  std::string id;                                  // 32 hex digits
  std::string model;                               // served name
  std::shared_ptr<const std::string> fingerprint;  // canonical text, up to 48 KiB: shared by all copies
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  std::uint32_t sessions = 0;
};

struct SessionStats {
  std::uint32_t number = 0;
  std::string engine;
  std::string namespace_id;  // empty before one is open
  bool silent = false;       // its heartbeat is missed
  std::uint32_t holds = 0;
  std::uint32_t grants = 0;
  std::uint64_t held_bytes = 0;  // of the holds that count
  std::uint64_t granted_bytes = 0;
  bool sidecar_copies = false;                          // larderd copies for it, and not its own process
  std::string transfer_reason = {}, transfer_why = {};  // why not, by its name and in words; empty: it was not to, or does
  // Of an engine with pages on a GPU, as it tells: how much of the arena is registered with it, and by what it copies, in words. Empty: no GPU.
  std::uint64_t registered_bytes = 0;
  std::string copies_by = {};
};

// Copies that larderd makes itself (transfer: sidecar). Counters of chunks; of allocations of engines' memory that it ever opened, and how many are open.
struct TransferStats {
  std::uint64_t stores = 0, loads = 0, failed = 0, bytes = 0, opened = 0, open = 0;
};

// The extents of one slot size.
inline constexpr std::size_t kMaxSlotSizes = 16;
struct SlotSizeStats {
  std::uint64_t slot_bytes = 0;
  std::uint64_t extents = 0;
  std::uint64_t slots = 0, used = 0;  // used: all but free ones
};

// Requests of one served model name. The label is bounded: the loop keeps at most kMaxModels, the rest count as "other".
inline constexpr std::size_t kMaxModels = 32;
struct ModelStats {
  std::string model;
  std::uint64_t requests = 0, requests_hit = 0;
  std::uint64_t tokens_asked = 0, tokens_hit = 0;
  std::uint64_t bytes_loaded = 0, bytes_stored = 0;
  std::uint64_t prefill_tokens = 0, prefill_ns = 0;  // what the engines computed themselves
  std::uint64_t requests_short = 0;                  // of those without a hit: they asked for less than a chunk
  std::uint64_t requests_salted = 0;                 // they hit only what requests with the same salt computed
  // What hits saved, each at the speed that was known of the engines then; hits before any was known wait for it.
  std::uint64_t prefill_saved_ns = 0, tokens_not_valued = 0;
};

// What an engine did about a request, the label `decision`.
inline constexpr std::array<const char*, 5> kDecisions{"load", "fetch", "recompute", "absent", "unknown"};

// What larderd would hit with another amount of memory (sidecar/sizing).
struct EstimatedHit {
  const char* size;  // times the configured memory, the label
  double factor;
  double ratio;  // of tokens asked for
};
struct Estimate {
  std::array<EstimatedHit, 4> hits{{{"0.5", 0.5, 0}, {"1", 1, 0}, {"2", 2, 0}, {"4", 4, 0}}};
  std::uint64_t chunks_asked = 0, chunks_sampled = 0;  // counters
  std::uint64_t chunks_tracked = 0;                    // gauge: of which the last use is known
  double sampling_ratio = 1;                           // gauge
  DistanceHistogram reuse_distance;                    // of all chunks asked for, scaled up from those sampled
};

// A tier below the memory. Counters of chunks where no unit stands in the name.
struct TierStats {
  std::string place;  // the disk's directory, the backend's address; empty: there is none, and all else says nothing
  std::string mode;   // io_uring, threads; TCP, TLS, Unix socket
  bool takes_puts = true, takes_gets = true;
  std::string reason;                                                                                  // why not both are taken
  std::uint64_t capacity_bytes = 0, used_bytes = 0, chunks = 0, in_flight_bytes = 0, write_queue = 0;  // gauges
  std::uint64_t puts = 0, put_bytes = 0, puts_failed = 0;
  std::uint64_t gets = 0, get_bytes = 0, gets_missed = 0, gets_failed = 0;
  std::uint64_t refused = 0, deadlines_missed = 0, records_corrupt = 0, not_queued = 0;
  std::uint64_t evicted_capacity = 0, evicted_dropped = 0, evicted_expired = 0;
  std::uint64_t written_bytes = 0, read_bytes = 0;              // to and from the device, with all that is not payload
  std::uint64_t read_window_bytes = 0, write_window_bytes = 0;  // gauges: that may be at the device at once
  std::uint64_t times_degraded = 0;
  Histogram get_time, put_time;  // of one chunk, from asking the tier to its word; those that succeeded
  // What engines are told of it: whether it answers in time, and how fast.
  bool serving = false;
  std::uint64_t read_latency_ns = 0, read_bytes_per_s = 0;
};

struct Stats {
  std::string version;
  std::string pool;
  std::uint64_t epoch = 0;
  std::uint64_t uptime_ms = 0;
  std::uint64_t log_lines_dropped = 0;  // of this process, its supervisor included

  // Memory tier.
  std::uint64_t arena_bytes = 0, touched_bytes = 0, used_bytes = 0;
  std::uint64_t arena_page_bytes = 0;
  std::string arena_numa = "none";  // NUMA nodes that the arena is bound to: "node 1", "nodes 0-1 interleaved"
  std::uint64_t unused_bytes = 0;   // touched, and in no extent
  std::uint64_t pinned_bytes = 0;
  std::uint64_t kept_bytes = 0;           // of slots that larderd itself holds
  std::vector<SlotSizeStats> slot_sizes;  // at most kMaxSlotSizes of those in use
  std::uint64_t slots_free = 0;           // in extents
  std::uint64_t slots_granted = 0, slots_committed = 0, slots_quarantined = 0;
  std::uint64_t slots_pinned = 0;      // of the committed
  std::uint64_t chunks_committed = 0;  // counter
  std::uint64_t chunks_promoted = 0;   // counter: from below
  std::uint64_t evicted_capacity = 0, evicted_dropped = 0, evicted_bad = 0, evicted_resized = 0;
  // Of those for room or another size, where there is a tier that did not have them: it should have; it was not to (not seen often
  // enough, too old, too large).
  std::uint64_t evicted_unwritten = 0, evicted_unwanted = 0;

  TierStats disk, backend;

  // Of an earlier life, at the start: chunks kept, and those that were not valid.
  std::uint64_t restored_chunks = 0, restore_dropped = 0;

  // Refusals: RESERVE answered with no space, with a cap, as present, as pending; COMMIT of another session or generation.
  std::uint64_t refused_no_space = 0, refused_cap = 0, reserve_present = 0, reserve_pending = 0, refused_commit = 0;
  std::uint64_t disowned = 0;

  // Ages and caps: holds that ceased to count because of their age or of what their session held already; grants asked about, those
  // quarantined because no answer came, and those that came back because their engine attached anew without naming them.
  std::uint64_t holds_expired = 0, holds_over_cap = 0;
  std::uint64_t grants_asked = 0, grants_unanswered = 0, grants_reclaimed = 0;

  // From below: fetches asked for, those that a deadline cut short, families that were whole in memory for them, bytes read and chunks
  // that could not be; and fetches that run or whose chunks are kept.
  std::uint64_t fetches = 0, fetches_late = 0, fetch_hits = 0, promoted_bytes = 0, promotions_failed = 0;
  std::uint64_t fetches_kept = 0;  // gauge
  // Of a shared backend: how much of it engines would find there. Late: the deadline came first. Failed: the backend could not be asked.
  std::uint64_t probes = 0, probes_late = 0, probes_failed = 0, probe_hits = 0, probe_hits_shared = 0;

  // Hashes that engines and people named in a verb.
  std::uint64_t asked_to_prefetch = 0, asked_to_pin = 0, asked_to_unpin = 0, asked_to_evict = 0;

  // Bytes that did not match: reported by engines, and those that the sidecar found true when it looked.
  std::uint64_t bad_reported = 0, bad_confirmed = 0, checksum_failures = 0, loads_failed = 0, events_lost = 0;

  // Sessions.
  std::uint64_t sessions_opened = 0, sessions_ended = 0, sessions_refused = 0, protocol_errors = 0, heartbeats_missed = 0;
  std::uint64_t holds = 0, grants = 0, held_bytes = 0, granted_bytes = 0;  // gauges
  // Namespaces whose place serves others now; those whose chunks were evicted for that; those for which there was no place.
  std::uint64_t namespaces_given_back = 0, namespaces_evicted = 0, namespaces_refused = 0;

  Histogram lookup, load_wait, load_copy, store_copy, reserve;
  std::uint64_t loads = 0, stored = 0;                       // ended well, by engines
  std::array<std::uint64_t, kDecisions.size()> decisions{};  // requests, by what was done about each
  AgeHistogram age_at_eviction;                              // since the last use, of chunks that left memory for room
  Estimate estimate;
  Histogram probe;  // of those for which the backend was asked

  TransferStats transfer;
  std::vector<ModelStats> models;
  std::vector<NamespaceStats> namespaces;
  std::vector<SessionStats> sessions;
  // Fallbacks in force, e.g. {"hugepages", "4 KiB pages: 3 of 2560 huge pages are free"}.
  std::vector<std::pair<std::string, std::string>> fallbacks;
};

}  // namespace larder::stats
