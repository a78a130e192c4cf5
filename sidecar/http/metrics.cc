#include "sidecar/http/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <sstream>

#include "sidecar/http/metrics_page.h"
#include "sidecar/http/utf8.h"

namespace larder::http {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;
using Labels = std::vector<std::pair<std::string, std::string>>;
constexpr double kNs = 1e9, kMs = 1e3;  // of a second

// The fallbacks that larderd can fall into; one that is in force and not listed here shows as well.
constexpr const char* kFallbackKinds[] = {"backend", "config", "disk", "hugepages", "memory", "numa", "pidfd"};

class Families {
 public:
  void begin(MetricType type, const std::string& name, const std::string& help) {
    families_.push_back({"larder_" + name, help, type, {}});
  }
  void add(double value, const Labels& labels = {}) {
    ClientMetric metric = labelled(labels);
    if (families_.back().type == MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    families_.back().metric.push_back(metric);
  }
  void add(std::uint64_t value, const Labels& labels = {}) { add(static_cast<double>(value), labels); }
  // `parts`: of the metric's unit, that the histogram counts in. Divided by: the bounds are then the numbers that they look like.
  template <typename Counts>
  void add(const Counts& counts, const Labels& labels, double parts) {
    ClientMetric metric = labelled(labels);
    for (std::size_t i = 0; i < Counts::kBuckets; ++i) {
      metric.histogram.sample_count += counts.count(i);
      metric.histogram.bucket.push_back({metric.histogram.sample_count, static_cast<double>(counts.bound(i)) / parts});
    }
    metric.histogram.sample_count = counts.total();
    metric.histogram.sample_sum = static_cast<double>(counts.sum()) / parts;
    families_.back().metric.push_back(metric);
  }

  void gauge(const std::string& name, const std::string& help, std::uint64_t value, const Labels& labels = {}) {
    begin(MetricType::Gauge, name, help);
    add(value, labels);
  }
  void counter(const std::string& name, const std::string& help, std::uint64_t value) {
    begin(MetricType::Counter, name, help);
    add(value);
  }

  std::string text() const {
    std::ostringstream stream;
    prometheus::TextSerializer().Serialize(stream, families_);
    return stream.str();
  }

 private:
  static ClientMetric labelled(const Labels& labels) {
    ClientMetric metric;
    for (const auto& [name, value] : labels) metric.label.push_back({name, value});
    return metric;
  }

  std::vector<prometheus::MetricFamily> families_;
};

void add_identity(Families& out, const stats::Stats& stats, bool ready) {
  out.gauge("build_info", "Version and pool of this larderd.", 1, {{"version", stats.version}, {"pool", stats.pool}});
  out.begin(MetricType::Gauge, "uptime_seconds", "Seconds since this larderd started.");
  out.add(static_cast<double>(stats.uptime_ms) * 1e-3);
  out.gauge("ready", "1 while engines can attach.", ready ? 1 : 0);
  out.begin(MetricType::Gauge, "fallback", "1 while larderd runs in this fallback; /v1/status says why.");
  std::map<std::string, std::uint64_t> kinds;
  for (const char* kind : kFallbackKinds) kinds[kind] = 0;
  for (const auto& [kind, why] : stats.fallbacks) kinds[kind] = 1;
  for (const auto& [kind, in_force] : kinds) out.add(in_force, {{"kind", kind}});
}

// The tiers below the memory.
struct Below {
  std::string name;
  const stats::TierStats& stats;
  std::vector<const char*> modes;
};
std::vector<Below> below(const stats::Stats& stats) {
  return {{"disk", stats.disk, {"io_uring", "threads"}}, {"backend", stats.backend, {"TCP", "TLS", "Unix socket"}}};
}

void add_tiers(Families& out, const stats::Stats& stats) {
  const auto all = [&](const char* name, const char* help, std::uint64_t dram, std::uint64_t stats::TierStats::*value) {
    out.begin(MetricType::Gauge, name, help);
    out.add(dram, {{"tier", "dram"}});
    for (const Below& tier : below(stats)) out.add(tier.stats.*value, {{"tier", tier.name}});
  };
  all("tier_capacity_bytes", "Bytes that a tier can hold; 0 where there is none, or nobody knows.", stats.arena_bytes,
      &stats::TierStats::capacity_bytes);
  all("tier_used_bytes",
      "Bytes of the chunks that a tier holds: in memory without digests and padding, in a backend those known here.",
      stats.used_bytes, &stats::TierStats::used_bytes);
  all("tier_chunks", "Chunks that a tier holds; of a backend those known here.", stats.slots_committed,
      &stats::TierStats::chunks);
  out.begin(MetricType::Counter, "evictions_total", "Chunks that left a tier, by reason.");
  out.add(stats.evicted_capacity, {{"tier", "dram"}, {"reason", "capacity"}});
  out.add(stats.evicted_dropped, {{"tier", "dram"}, {"reason", "dropped"}});
  out.add(stats.evicted_bad, {{"tier", "dram"}, {"reason", "bad"}});
  out.add(stats.evicted_resized, {{"tier", "dram"}, {"reason", "resized"}});
  for (const Below& tier : below(stats)) {
    out.add(tier.stats.evicted_capacity, {{"tier", tier.name}, {"reason", "capacity"}});
    out.add(tier.stats.evicted_dropped, {{"tier", tier.name}, {"reason", "dropped"}});
    out.add(tier.stats.evicted_expired, {{"tier", tier.name}, {"reason", "expired"}});
  }
  out.counter("evicted_unwritten_total",
              "Chunks that left memory for room and should have been in a tier below it, but were not: too many at once.",
              stats.evicted_unwritten);
  out.counter("evicted_unwanted_total",
              "Chunks that left memory for room and were to go to no tier below it: not seen often enough, too old, too large.",
              stats.evicted_unwanted);
}

void add_below_operations(Families& out, const stats::Stats& stats) {
  out.begin(
      MetricType::Counter, "tier_operations_total",
      "What was to be put into a tier or got from it, by what came of it: chunks; of dram the stores and loads of engines, of "
      "many chunks each.");
  const auto dram = [&](const char* operation, const char* result, std::uint64_t count) {
    out.add(count, {{"tier", "dram"}, {"operation", operation}, {"result", result}});
  };
  dram("put", "ok", stats.stored);
  dram("get", "ok", stats.loads);
  dram("get", "failed", stats.loads_failed);
  for (const Below& tier : below(stats)) {
    const auto operations = [&](const char* operation, const char* result, std::uint64_t count) {
      out.add(count, {{"tier", tier.name}, {"operation", operation}, {"result", result}});
    };
    operations("put", "ok", tier.stats.puts);
    operations("put", "failed", tier.stats.puts_failed);
    operations("get", "ok", tier.stats.gets);
    operations("get", "missed", tier.stats.gets_missed);
    operations("get", "failed", tier.stats.gets_failed);
  }
  out.begin(MetricType::Counter, "tier_bytes_total", "Bytes of the chunks that were put into a tier and got from it.");
  std::uint64_t stored = 0, loaded = 0;
  for (const stats::ModelStats& model : stats.models) {
    stored += model.bytes_stored;
    loaded += model.bytes_loaded;
  }
  out.add(stored, {{"tier", "dram"}, {"operation", "put"}});
  out.add(loaded, {{"tier", "dram"}, {"operation", "get"}});
  for (const Below& tier : below(stats)) {
    out.add(tier.stats.put_bytes, {{"tier", tier.name}, {"operation", "put"}});
    out.add(tier.stats.get_bytes, {{"tier", tier.name}, {"operation", "get"}});
  }
  out.begin(
      MetricType::Histogram, "tier_operation_seconds",
      "Duration of an operation of a tier that succeeded: of one chunk from asking the tier to its word; of dram the copy of a "
      "whole store or load.");
  out.add(stats.store_copy, {{"tier", "dram"}, {"operation", "put"}}, kNs);
  out.add(stats.load_copy, {{"tier", "dram"}, {"operation", "get"}}, kNs);
  for (const Below& tier : below(stats)) {
    out.add(tier.stats.put_time, {{"tier", tier.name}, {"operation", "put"}}, kNs);
    out.add(tier.stats.get_time, {{"tier", tier.name}, {"operation", "get"}}, kNs);
  }
  out.begin(MetricType::Counter, "tier_device_bytes_total", "Bytes written to the device of a tier and read from it.");
  for (const Below& tier : below(stats)) {
    out.add(tier.stats.written_bytes, {{"tier", tier.name}, {"direction", "write"}});
    out.add(tier.stats.read_bytes, {{"tier", tier.name}, {"direction", "read"}});
  }
}

void add_below(Families& out, const stats::Stats& stats) {
  add_below_operations(out, stats);
  const auto each = [&](MetricType type, const char* name, const char* help, const auto& value) {
    out.begin(type, name, help);
    for (const Below& tier : below(stats)) out.add(value(tier.stats), {{"tier", tier.name}});
  };
  using Tier = stats::TierStats;
  const auto counter = [&](const char* name, const char* help, std::uint64_t Tier::*value) {
    each(MetricType::Counter, name, help, [value](const Tier& tier) { return tier.*value; });
  };
  counter("tier_refused_total", "Operations that a tier did not take: too many, or it is degraded.", &Tier::refused);
  counter("tier_deadlines_missed_total", "Operations of a tier that did not end in time.", &Tier::deadlines_missed);
  counter("tier_corrupt_total", "Chunks in a tier that were not what was stored.", &Tier::records_corrupt);
  counter("tier_degradations_total", "Times that a tier began to fail.", &Tier::times_degraded);
  counter("tier_unqueued_total", "Stored chunks for which the queue to a tier was full; they are written later.",
          &Tier::not_queued);
  each(MetricType::Gauge, "tier_degraded", "1 while a tier does not take chunks or give them; /v1/status says why.",
       [](const Tier& tier) { return std::uint64_t{!tier.takes_puts || !tier.takes_gets}; });
  each(MetricType::Gauge, "tier_in_flight_bytes", "Bytes on their way to a tier or from it.",
       [](const Tier& tier) { return tier.in_flight_bytes; });
  out.begin(MetricType::Gauge, "tier_window_bytes",
            "Bytes that may be at the device of a tier at once, as it was found to be fast.");
  for (const Below& tier : below(stats)) {
    out.add(tier.stats.read_window_bytes, {{"tier", tier.name}, {"direction", "read"}});
    out.add(tier.stats.write_window_bytes, {{"tier", tier.name}, {"direction", "write"}});
  }
  each(MetricType::Gauge, "tier_write_queue", "Chunks that wait to be written to a tier or are being written.",
       [](const Tier& tier) { return tier.write_queue; });
  out.begin(MetricType::Gauge, "tier_mode", "1 for the way in which a tier reaches its device.");
  for (const Below& tier : below(stats))
    for (const char* mode : tier.modes) out.add(std::uint64_t{tier.stats.mode == mode}, {{"tier", tier.name}, {"mode", mode}});
  each(MetricType::Gauge, "tier_serving", "1 while a tier takes reads and answers them in time; engines fetch from it only then.",
       [](const Tier& tier) { return std::uint64_t{tier.serving}; });
  each(MetricType::Gauge, "tier_read_latency_seconds", "From a fetch of little to its bytes in memory, as measured.",
       [](const Tier& tier) { return static_cast<double>(tier.read_latency_ns) * 1e-9; });
  each(MetricType::Gauge, "tier_read_bytes_per_second", "How fast a tier reads, as measured.",
       [](const Tier& tier) { return tier.read_bytes_per_s; });
}

void add_fetches(Families& out, const stats::Stats& stats) {
  out.counter("fetches_total", "Fetches that engines asked for.", stats.fetches);
  out.counter("fetches_late_total", "Fetches that their deadline cut short.", stats.fetches_late);
  out.gauge("fetches_kept", "Fetches that run, or whose chunks larderd keeps for their engine.", stats.fetches_kept);
  out.counter("families_fetched_total", "Chunks, all shards and groups as one, that were whole in memory for a fetch.",
              stats.families_fetched);
  out.counter("chunks_promoted_total", "Chunks that came up from a tier.", stats.chunks_promoted);
  out.counter("promoted_bytes_total", "Bytes that came up from a tier.", stats.promoted_bytes);
  out.counter("promotions_failed_total", "Chunks that should have come up and could not.", stats.promotions_failed);
  out.counter("looks_total", "Questions of engines how much is in memory, on the disk and in the backend together.", stats.looks);
  out.counter("looks_late_total", "Of these, those that the backend did not answer in time.", stats.looks_late);
  out.counter("looks_failed_total", "Of these, those about which the backend could not be asked.", stats.looks_failed);
  out.counter("families_looked_up_total", "Chunks, all shards and groups as one, that were found so.", stats.families_looked_up);
  out.counter("families_shared_total", "Of these, those that are in the backend alone.", stats.families_shared);
}

void add_estimate(Families& out, const stats::Stats& stats) {
  const stats::Estimate& estimate = stats.estimate;
  out.begin(MetricType::Gauge, "estimated_hit_ratio",
            "Share of the tokens asked for lately that would be found with so many times the configured memory, tiers below left "
            "out, as a sample of the chunks asked for tells; 0 until engines ask.");
  for (const stats::EstimatedHit& hit : estimate.hits) out.add(hit.ratio, {{"size", hit.size}});
  out.begin(MetricType::Histogram, "reuse_distance_bytes",
            "Bytes of other chunks that were used between two uses of a chunk, of all chunks asked for, scaled up from a sample; "
            "above the last bound: asked for the first time, or longer ago than the sample reaches.");
  out.add(estimate.reuse_distance, {}, 1);
  out.counter("asked_chunks_total", "Chunks of prompts that engines told of for the estimate.", estimate.chunks_asked);
  out.counter("sampled_chunks_total", "Of these, those that the sample took in.", estimate.chunks_sampled);
  out.gauge("sample_chunks", "Chunks whose last use the sample knows.", estimate.chunks_tracked);
  out.begin(MetricType::Gauge, "sampling_ratio", "Share of all chunks that the sample takes in.");
  out.add(estimate.sampling_ratio);
  out.begin(MetricType::Histogram, "age_at_eviction_seconds",
            "Time since the last use of chunks that left memory for room: short ages mean too little memory.");
  out.add(stats.age_at_eviction, {}, kMs);
  out.begin(
      MetricType::Counter, "load_decisions_total",
      "Requests, by what their engine decided: load what is in memory, fetch from a tier below (and load), recompute although a "
      "tier below has more (that would be slower), absent: there is nothing to load; unknown: an older engine's.");
  for (std::size_t i = 0; i < stats::kDecisions.size(); ++i) out.add(stats.decisions[i], {{"decision", stats::kDecisions[i]}});
}

void add_memory(Families& out, const stats::Stats& stats) {
  out.gauge("arena_touched_bytes", "Bytes of the arena that are backed by memory; only these are granted.", stats.touched_bytes);
  out.gauge("arena_page_bytes", "Page size of the arena.", stats.arena_page_bytes);
  out.gauge("arena_unused_bytes", "Touched bytes of the arena that are in no extent.", stats.unused_bytes);
  out.gauge("arena_pinned_bytes", "Bytes of slots that are not evicted for room.", stats.pinned_bytes);
  out.gauge("arena_kept_bytes", "Bytes of slots that larderd itself holds for a moment, on their way to a tier or from it.",
            stats.kept_bytes);
  out.begin(MetricType::Gauge, "extent_slots", "Slots of each size, free ones included.");
  for (const stats::SlotSizeStats& size : stats.slot_sizes)
    out.add(size.slots, {{"slot_bytes", std::to_string(size.slot_bytes)}});
  out.gauge("arena_numa", "1, labelled with the NUMA nodes that the arena is bound to.", 1, {{"nodes", stats.arena_numa}});
  out.begin(MetricType::Gauge, "slots", "Slots by state.");
  out.add(stats.slots_free, {{"state", "free"}});
  out.add(stats.slots_granted, {{"state", "granted"}});
  out.add(stats.slots_committed, {{"state", "committed"}});
  out.add(stats.slots_quarantined, {{"state", "quarantined"}});
  out.counter("chunks_committed_total", "Chunks stored.", stats.chunks_committed);
  out.gauge("restored_chunks", "Chunks that this larderd took over from the one before it.", stats.restored_chunks, {});
  out.gauge("restore_dropped_chunks", "Chunks of the larderd before it that were not valid.", stats.restore_dropped, {});
}

void add_stores(Families& out, const stats::Stats& stats) {
  out.begin(MetricType::Counter, "refused_total", "Requests to store that were refused, by reason.");
  out.add(stats.refused_no_space, {{"reason", "no_space"}});
  out.add(stats.refused_cap, {{"reason", "cap"}});
  out.add(stats.refused_commit, {{"reason", "commit"}});
  out.counter("reserve_present_total", "Chunks not stored because they were there.", stats.reserve_present);
  out.counter("reserve_pending_total", "Chunks not stored because another session was storing them.", stats.reserve_pending);
  out.counter("disowned_total", "Grants given back unused.", stats.disowned);
  out.counter("grants_asked_total", "Grants beyond their age that engines were asked about.", stats.grants_asked);
  out.counter("grants_unanswered_total", "Of these, grants quarantined because no answer came.", stats.grants_unanswered);
  out.counter("grants_reclaimed_total", "Grants of a lost session that its engine did not write any more when it attached anew.",
              stats.grants_reclaimed);
}

void add_verbs(Families& out, const stats::Stats& stats) {
  out.begin(MetricType::Counter, "verb_hashes_total", "Hashes named in a verb, by engines and through the admin API.");
  out.add(stats.asked_to_prefetch, {{"verb", "prefetch"}});
  out.add(stats.asked_to_pin, {{"verb", "pin"}});
  out.add(stats.asked_to_unpin, {{"verb", "unpin"}});
  out.add(stats.asked_to_evict, {{"verb", "evict"}});
}

void add_trust(Families& out, const stats::Stats& stats) {
  out.counter("checksum_failures_total", "Loads whose bytes did not match their checksum; the engine recomputed them.",
              stats.checksum_failures);
  out.counter("bad_reported_total", "Slots that engines reported as bad.", stats.bad_reported);
  out.counter("bad_confirmed_total", "Reported slots that larderd found bad as well.", stats.bad_confirmed);
  out.counter("loads_failed_total", "Loads that failed for any reason.", stats.loads_failed);
  out.counter("events_lost_total", "Events that engines wrote faster than larderd read them.", stats.events_lost);
}

void add_sessions(Families& out, const stats::Stats& stats) {
  out.gauge("sessions", "Engine processes attached.", stats.sessions.size());
  out.counter("sessions_opened_total", "Sessions ever attached.", stats.sessions_opened);
  out.counter("sessions_ended_total", "Sessions that ended.", stats.sessions_ended);
  out.counter("sessions_refused_total", "Sessions refused in the handshake.", stats.sessions_refused);
  out.counter("protocol_errors_total", "Sessions ended because of a message against the protocol.", stats.protocol_errors);
  out.counter("heartbeats_missed_total", "Sessions that went silent.", stats.heartbeats_missed);
  out.gauge("holds", "Holds on slots that engines are reading.", stats.holds);
  out.gauge("held_bytes", "Bytes of the slots that are held.", stats.held_bytes);
  out.begin(MetricType::Gauge, "arena_held_ratio", "Share of the arena that is held; no more can be reused than what is not.");
  out.add(stats.arena_bytes == 0 ? 0.0 : static_cast<double>(stats.held_bytes) / static_cast<double>(stats.arena_bytes));
  out.begin(MetricType::Counter, "holds_not_counted_total",
            "Holds that ceased to count, by reason: too old, or over a session's cap.");
  out.add(stats.holds_expired, {{"reason", "age"}});
  out.add(stats.holds_over_cap, {{"reason", "cap"}});
  out.gauge("grants", "Slots granted and not yet committed.", stats.grants);
  out.gauge("granted_bytes", "Bytes of the slots that are granted and not yet committed.", stats.granted_bytes);
}

void add_operations(Families& out, const stats::Stats& stats) {
  out.begin(MetricType::Histogram, "operation_seconds", "Duration of one operation.");
  out.add(stats.lookup, {{"operation", "lookup"}}, kNs);
  out.add(stats.load_wait, {{"operation", "load_wait"}}, kNs);
  out.add(stats.load_copy, {{"operation", "load_copy"}}, kNs);
  out.add(stats.store_copy, {{"operation", "store_copy"}}, kNs);
  out.add(stats.reserve, {{"operation", "reserve"}}, kNs);
  out.add(stats.look, {{"operation", "look"}}, kNs);
}

// One row a label value: names that become equal when they are made valid UTF-8 are one row. "other" is always there.
std::map<std::string, stats::ModelStats> rows_by_model(const stats::Stats& stats) {
  std::map<std::string, stats::ModelStats> rows{{"other", {}}};
  for (const stats::ModelStats& model : stats.models) {
    stats::ModelStats& row = rows[valid_utf8(model.model)];
    row.requests += model.requests;
    row.requests_hit += model.requests_hit;
    row.requests_short += model.requests_short;
    row.requests_salted += model.requests_salted;
    row.tokens_asked += model.tokens_asked;
    row.tokens_hit += model.tokens_hit;
    row.bytes_loaded += model.bytes_loaded;
    row.bytes_stored += model.bytes_stored;
    row.prefill_tokens += model.prefill_tokens;
    row.prefill_ns += model.prefill_ns;
    row.prefill_saved_ns += model.prefill_saved_ns;
  }
  return rows;
}

void add_models(Families& out, const stats::Stats& stats) {
  const std::map<std::string, stats::ModelStats> rows = rows_by_model(stats);
  const auto counter = [&](const char* name, const char* help, std::uint64_t stats::ModelStats::*value, double parts = 1) {
    out.begin(MetricType::Counter, name, help);
    for (const auto& [model, row] : rows) out.add(static_cast<double>(row.*value) / parts, {{"model", model}});
  };
  counter("requests_total", "Requests that were looked up.", &stats::ModelStats::requests);
  counter("requests_hit_total", "Requests of which at least one chunk was found.", &stats::ModelStats::requests_hit);
  counter("requests_short_total", "Requests without a hit that asked for less than a chunk.", &stats::ModelStats::requests_short);
  counter("requests_salted_total", "Requests that carried a cache_salt: they hit only what requests with the same one computed.",
          &stats::ModelStats::requests_salted);
  counter("tokens_asked_total", "Prompt tokens that were looked up.", &stats::ModelStats::tokens_asked);
  counter("tokens_hit_total", "Prompt tokens that were found.", &stats::ModelStats::tokens_hit);
  counter("loaded_bytes_total", "Bytes loaded and verified.", &stats::ModelStats::bytes_loaded);
  counter("stored_bytes_total", "Bytes stored.", &stats::ModelStats::bytes_stored);
  counter("prefill_tokens_total", "Prompt tokens that the engines computed.", &stats::ModelStats::prefill_tokens);
  counter("prefill_seconds_total", "Seconds in which they computed them.", &stats::ModelStats::prefill_ns, kNs);
  counter(
      "prefill_saved_seconds_total",
      "Seconds that the engines would have taken to compute the prompt tokens that were found, at the speed they were measured "
      "at; 0 until they have computed some.",
      &stats::ModelStats::prefill_saved_ns, kNs);
}

void add_http(Families& out, const Counters& http) {
  out.counter("http_requests_total", "HTTP requests answered.", http.requests);
  out.begin(MetricType::Counter, "http_refused_total", "HTTP connections ended without an answer to their request, by reason.");
  out.add(http.refused, {{"reason", "limits"}});
  out.add(http.timed_out, {{"reason", "deadline"}});
  out.add(http.crowded_out, {{"reason", "connections"}});
}

}  // namespace

std::string metrics_text(const stats::Stats& stats, bool ready, const Counters& http) {
  Families out;
  add_identity(out, stats, ready);
  add_tiers(out, stats);
  add_memory(out, stats);
  add_estimate(out, stats);
  add_below(out, stats);
  add_fetches(out, stats);
  add_stores(out, stats);
  add_verbs(out, stats);
  add_trust(out, stats);
  add_sessions(out, stats);
  add_operations(out, stats);
  add_models(out, stats);
  add_http(out, http);
  return out.text();
}

std::string metrics_reference() {
  constexpr OpenLabel kOpen[] = {{"version", "larderd's"},
                                 {"pool", "as configured"},
                                 {"nodes", "`none`, `node 1`, `nodes 0-1 interleaved`"},
                                 {"slot_bytes", "sizes of slots in use, at most 16"},
                                 {"model", "served model names, the first 31 and `other`"}};
  stats::Stats example;
  example.slot_sizes.emplace_back();
  return R"(# Metrics

What `GET /metrics` of larderd and of larder-operator export, each from its start, at zero. Printed by
`(larderd --metrics-reference && larder-operator --metrics-reference)` from the same code; tests compare this page with running ones.
Units are base units (seconds, bytes); a counter ends in `_total`, a histogram has `_bucket`, `_sum` and `_count`. Every label is
bounded: namespaces, sessions, requests and keys are none.

## larderd

)" + metrics_table(metrics_text(example, true, Counters()), kOpen);
}

}  // namespace larder::http
