#include "sidecar/pages/metrics.h"

#include <map>

#include "sidecar/http/metrics_page.h"
#include "sidecar/pages/metric_families.h"
#include "sidecar/pages/tier_metrics.h"
#include "sidecar/pages/utf8.h"

namespace larder::pages {
namespace {

// The fallbacks that larderd can fall into; one that is in force and not listed here shows as well.
constexpr const char* kFallbackKinds[] = {"backend", "config", "disk",  "engines", "hugepages",
                                          "memory",  "numa",   "pidfd", "transfer"};

void add_identity(Families& out, const stats::Stats& stats, bool ready) {
  out.gauge("build_info", "Version and pool of this larderd.", 1, {{"version", stats.version}, {"pool", stats.pool}});
  out.begin(MetricType::kGauge, "uptime_seconds", "Seconds since this larderd started.");
  out.add(static_cast<double>(stats.uptime_ms) * 1e-3);
  out.gauge("ready", "1 while engines can attach.", ready ? 1 : 0);
  out.begin(MetricType::kGauge, "fallback", "1 while larderd runs in this fallback; /v1/status says why.");
  std::map<std::string, std::uint64_t> kinds;
  for (const char* kind : kFallbackKinds) kinds[kind] = 0;
  for (const stats::Fallback& fallback : stats.fallbacks) kinds[fallback.kind] = 1;
  for (const auto& [kind, in_force] : kinds) out.add(in_force, {{"kind", kind}});
}

void add_log(Families& out, const stats::Stats& stats) {
  out.counter("log_dropped_lines_total",
              "Log lines of larderd and its supervisor that standard error did not take in time (its reader is slow or gone) or "
              "at all (a "
              "full disk).",
              stats.log_lines_dropped);
}

void add_estimate(Families& out, const stats::Stats& stats) {
  const stats::Estimate& estimate = stats.estimate;
  out.begin(MetricType::kGauge, "estimated_hit_ratio",
            "Share of the tokens asked for lately that would be found with so many times the configured memory, tiers below left "
            "out, as a sample of the chunks asked for tells; 0 until engines ask.");
  for (const stats::EstimatedHit& hit : estimate.hits) out.add(hit.ratio, {{"size", hit.size}});
  out.begin(MetricType::kHistogram, "reuse_distance_bytes",
            "Bytes of other chunks that were used between two uses of a chunk, of all chunks asked for, scaled up from a sample; "
            "above the last bound: asked for the first time, or longer ago than the sample reaches.");
  out.add(estimate.reuse_distance, {}, 1);
  out.counter("asked_chunks_total", "Chunks of prompts that engines told of for the estimate.", estimate.chunks_asked);
  out.counter("sampled_chunks_total", "Of these, those that the sample took in.", estimate.chunks_sampled);
  out.gauge("sample_chunks", "Chunks whose last use the sample knows.", estimate.chunks_tracked);
  out.begin(MetricType::kGauge, "sampling_ratio", "Share of all chunks that the sample takes in.");
  out.add(estimate.sampling_ratio);
  out.begin(MetricType::kHistogram, "age_at_eviction_seconds",
            "Time since the last use of chunks that left memory for room: short ages mean too little memory.");
  out.add(stats.age_at_eviction, {}, kMs);
  out.begin(
      MetricType::kCounter, "load_decisions_total",
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
  out.begin(MetricType::kGauge, "extent_slots", "Slots of each size, free ones included.");
  for (const stats::SlotSizeStats& size : stats.slot_sizes)
    out.add(size.slots, {{"slot_bytes", std::to_string(size.slot_bytes)}});
  out.gauge("arena_numa", "1, labelled with the NUMA nodes that the arena is bound to.", 1, {{"nodes", stats.arena_numa}});
  out.begin(MetricType::kGauge, "slots", "Slots by state.");
  out.add(stats.slots_free, {{"state", "free"}});
  out.add(stats.slots_granted, {{"state", "granted"}});
  out.add(stats.slots_committed, {{"state", "committed"}});
  out.add(stats.slots_quarantined, {{"state", "quarantined"}});
  out.counter("chunks_committed_total", "Chunks stored.", stats.chunks_committed);
  out.gauge("restored_chunks", "Chunks that this larderd took over from the one before it.", stats.restored_chunks, {});
  out.gauge("restore_dropped_chunks", "Chunks of the larderd before it that were not valid.", stats.restore_dropped, {});
}

void add_stores(Families& out, const stats::Stats& stats) {
  out.begin(MetricType::kCounter, "refused_total", "Requests to store that were refused, by reason.");
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
  out.begin(MetricType::kCounter, "verb_hashes_total", "Hashes named in a verb, by engines and through the admin API.");
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
  out.gauge("namespaces", "Namespaces that a session has open or that have chunks in memory, 1024 at most.",
            stats.namespaces.size());
  out.counter("namespaces_given_back_total", "Namespaces whose place is free for others again.", stats.namespaces_given_back);
  out.counter("namespaces_evicted_total", "Namespaces of no session whose chunks were evicted for their place.",
              stats.namespaces_evicted);
  out.counter("namespaces_refused_total", "Namespaces for which there was no place.", stats.namespaces_refused);
  out.counter("protocol_errors_total", "Sessions ended because of a message against the protocol.", stats.protocol_errors);
  out.counter("heartbeats_missed_total", "Sessions that went silent.", stats.heartbeats_missed);
  out.gauge("holds", "Holds on slots that engines are reading.", stats.holds);
  out.gauge("held_bytes", "Bytes of the slots that are held.", stats.held_bytes);
  out.begin(MetricType::kGauge, "arena_held_ratio", "Share of the arena that is held; no more can be reused than what is not.");
  out.add(stats.arena_bytes == 0 ? 0.0 : static_cast<double>(stats.held_bytes) / static_cast<double>(stats.arena_bytes));
  out.begin(MetricType::kCounter, "holds_not_counted_total",
            "Holds that ceased to count, by reason: too old, or over a session's cap.");
  out.add(stats.holds_expired, {{"reason", "age"}});
  out.add(stats.holds_over_cap, {{"reason", "cap"}});
  out.gauge("grants", "Slots granted and not yet committed.", stats.grants);
  out.gauge("granted_bytes", "Bytes of the slots that are granted and not yet committed.", stats.granted_bytes);
}

void add_transfer(Families& out, const stats::Stats& stats) {
  std::uint64_t by_sidecar = 0;
  for (const stats::SessionStats& session : stats.sessions) by_sidecar += session.sidecar_copies ? 1 : 0;
  out.begin(
      MetricType::kGauge, "transfer_sessions",
      "Engine processes attached, by who copies their chunks: shim, their own process; sidecar, larderd (transfer: sidecar).");
  out.add(stats.sessions.size() - by_sidecar, {{"way", "shim"}});
  out.add(by_sidecar, {{"way", "sidecar"}});
  out.begin(MetricType::kCounter, "sidecar_copies_total", "Chunks that larderd copied itself, to store and to load.");
  out.add(stats.transfer.stores, {{"verb", "store"}});
  out.add(stats.transfer.loads, {{"verb", "load"}});
  out.counter("sidecar_copies_failed_total", "Copies that larderd began and could not make; their engines made them.",
              stats.transfer.failed);
  out.counter("sidecar_copied_bytes_total", "Bytes that larderd copied itself.", stats.transfer.bytes);
  out.counter("sidecar_memory_opened_total", "Allocations of engines' KV memory that larderd opened: none for a single copy.",
              stats.transfer.opened);
  out.gauge("sidecar_memory_open", "Allocations of engines' KV memory that larderd has open.", stats.transfer.open);
}

void add_operations(Families& out, const stats::Stats& stats) {
  out.begin(MetricType::kHistogram, "operation_seconds", "Duration of one operation.");
  out.add(stats.lookup, {{"operation", "lookup"}}, kNs);
  out.add(stats.load_wait, {{"operation", "load_wait"}}, kNs);
  out.add(stats.load_copy, {{"operation", "load_copy"}}, kNs);
  out.add(stats.store_copy, {{"operation", "store_copy"}}, kNs);
  out.add(stats.reserve, {{"operation", "reserve"}}, kNs);
  out.add(stats.probe, {{"operation", "probe"}}, kNs);
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
    out.begin(MetricType::kCounter, name, help);
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

void add_http(Families& out, const http::Counters& http) {
  out.counter("http_requests_total", "HTTP requests answered.", http.requests);
  out.begin(MetricType::kCounter, "http_refused_total", "HTTP connections ended without an answer to their request, by reason.");
  out.add(http.refused, {{"reason", "limits"}});
  out.add(http.timed_out, {{"reason", "deadline"}});
  out.add(http.crowded_out, {{"reason", "connections"}});
}

}  // namespace

std::string metrics_text(const stats::Stats& stats, bool ready, const http::Counters& http) {
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
  add_transfer(out, stats);
  add_operations(out, stats);
  add_models(out, stats);
  add_http(out, http);
  add_log(out, stats);
  return out.text();
}

std::string metrics_reference() {
  constexpr http::OpenLabel kOpen[] = {{"version", "larderd's"},
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

)" + http::metrics_table(metrics_text(example, true, http::Counters()), kOpen);
}

}  // namespace larder::pages
