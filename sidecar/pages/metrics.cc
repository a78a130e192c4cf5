#include "sidecar/pages/metrics.h"

#include <map>

#include "sidecar/http/metrics_page.h"
#include "sidecar/pages/metric_families.h"
#include "sidecar/pages/peer_metrics.h"
#include "sidecar/pages/tier_metrics.h"
#include "sidecar/pages/utf8.h"

namespace larder::pages {
namespace {

// The known fallbacks, which show 0 while they are not in force. A fallback in force that is
// missing here shows as well.
constexpr const char* kFallbackKinds[] = {"backend", "config", "disk",  "engines", "hugepages",
                                          "memory",  "numa",   "peers", "pidfd",   "transfer"};

void add_identity(Families& out, const stats::Stats& stats, bool ready) {
  out.gauge("build_info", "Version and pool of this larderd.", 1,
            {{"version", stats.version}, {"pool", stats.pool}});
  out.begin(MetricType::kGauge, "uptime_seconds", "Seconds since this larderd started.");
  out.add(static_cast<double>(stats.uptime_ms) * 1e-3);
  out.gauge("ready", "1 while engines can attach.", ready ? 1 : 0);
  out.begin(MetricType::kGauge, "fallback",
            "1 while larderd runs in this fallback; /v1/status says why.");
  // A map, so that two fallbacks of one kind make one row: Prometheus refuses a scrape with a
  // double row.
  std::map<std::string, std::uint64_t> kinds;
  for (const char* kind : kFallbackKinds) kinds[kind] = 0;
  for (const stats::Fallback& fallback : stats.fallbacks) kinds[fallback.kind] = 1;
  for (const auto& [kind, in_force] : kinds) out.add(in_force, {{"kind", kind}});
}

// Not in the log itself: a log that lost lines cannot be trusted to say so.
void add_log(Families& out, const stats::Stats& stats) {
  out.counter("log_dropped_lines_total",
              "Log lines of larderd and of the supervisor that standard error did not take in time "
              "(the reader is slow or gone) or at all (the disk is full).",
              stats.log_lines_dropped);
}

// What-if figures for the size of memory; sidecar/sizing computes the figures from the sample.
void add_estimate(Families& out, const stats::Stats& stats) {
  const stats::Estimate& estimate = stats.estimate;
  out.begin(MetricType::kGauge, "estimated_hit_ratio",
            "Estimated share of the recently looked-up tokens that would hit with `size` times the "
            "configured memory, without lower tiers. Larder estimates from a sample of the "
            "looked-up chunks; 0 until engines look up.");
  // The label is the factor ("2"), a constant list, and not a size in bytes.
  for (const stats::EstimatedHit& hit : estimate.hits) out.add(hit.ratio, {{"size", hit.size}});
  out.begin(MetricType::kHistogram, "reuse_distance_bytes",
            "Bytes of other chunks used between two uses of a looked-up chunk, scaled up from a "
            "sample. Above the last bound: the first use, or a last use older than the sample.");
  out.add(estimate.reuse_distance, {}, 1);  // counts bytes, the metric's own unit
  out.counter("asked_chunks_total", "Chunks of prompts reported by engines for the estimate.",
              estimate.chunks_asked);
  out.counter("sampled_chunks_total", "Reported chunks that joined the sample.",
              estimate.chunks_sampled);
  out.gauge("sample_chunks", "Chunks whose last use the sample records.", estimate.chunks_tracked);
  out.begin(MetricType::kGauge, "sampling_ratio",
            "Share of the reported chunks that join the sample.");
  out.add(estimate.sampling_ratio);
  // A counter of evictions alone cannot tell a full cache, which is normal, from one that is too
  // small.
  out.begin(MetricType::kHistogram, "age_at_eviction_seconds",
            "Time since the last use of chunks evicted from memory to make room. Short times mean "
            "too little memory.");
  out.add(stats.age_at_eviction, {}, kMs);
  out.begin(MetricType::kCounter, "load_decisions_total",
            "Requests by the engine's decision. load: load chunks from memory; fetch: fetch chunks "
            "from a lower tier, then load; recompute: a lower tier has more chunks, but computing "
            "is faster; absent: there is no chunk to load; unknown: an older engine does not "
            "report the decision.");
  // All decisions have a row from the start, so a rate() sees the first increase.
  for (std::size_t i = 0; i < stats::kDecisions.size(); ++i)
    out.add(stats.decisions[i], {{"decision", stats::kDecisions[i]}});
}

// Every family exists from the start, at zero, so that a rate() sees the first increase.
void add_memory(Families& out, const stats::Stats& stats) {
  out.gauge("arena_touched_bytes",
            "Bytes of the arena that are backed by memory. larderd grants only slots in this part.",
            stats.touched_bytes);
  out.gauge("arena_page_bytes", "Page size of the arena.", stats.arena_page_bytes);
  out.gauge("arena_unused_bytes", "Touched bytes of the arena outside of all extents.",
            stats.unused_bytes);
  out.gauge("arena_pinned_bytes",
            "Bytes of pinned slots, which larderd does not evict to make room.",
            stats.pinned_bytes);
  out.gauge("keep_bytes", "Bytes of chunks that stay in memory by the hint keep of a request.",
            stats.keep_bytes);
  out.counter(
      "keep_refused_total",
      "Block hashes that the hint keep did not keep: kept chunks filled memory.keep_percent.",
      stats.keep_refused);
  out.gauge("arena_kept_bytes",
            "Bytes of slots that larderd itself holds during a copy to or from a lower tier.",
            stats.kept_bytes);
  // At most 16 sizes (docs/reference/metrics.md), so the label is bounded.
  out.begin(MetricType::kGauge, "extent_slots", "Slots of each size, including free slots.");
  for (const stats::SlotSizeStats& size : stats.slot_sizes)
    out.add(size.slots, {{"slot_bytes", std::to_string(size.slot_bytes)}});
  // The text is a label, since a sample has only a number: `arena_numa{nodes="node 1"} 1`.
  out.gauge("arena_numa", "1, labelled with the NUMA nodes that the arena is bound to.", 1,
            {{"nodes", stats.arena_numa}});
  out.begin(MetricType::kGauge, "slots", "Slots by state.");
  out.add(stats.slots_free, {{"state", "free"}});
  out.add(stats.slots_granted, {{"state", "granted"}});
  out.add(stats.slots_committed, {{"state", "committed"}});
  out.add(stats.slots_quarantined, {{"state", "quarantined"}});
  out.counter("chunks_committed_total", "Chunks stored.", stats.chunks_committed);
  out.gauge("restored_chunks", "Chunks taken over from the previous instance.",
            stats.restored_chunks, {});
  out.gauge("restore_dropped_chunks",
            "Invalid chunks of the previous instance, which this larderd dropped.",
            stats.restore_dropped, {});
}

// Answers to RESERVE other than a grant, and grants that ended without a commit.
void add_stores(Families& out, const stats::Stats& stats) {
  // One family with a reason and not three families: the sum is the number of stores without a
  // slot.
  out.begin(MetricType::kCounter, "refused_total", "Refused requests to store, by reason.");
  out.add(stats.refused_no_space, {{"reason", "no_space"}});
  out.add(stats.refused_own_prompt, {{"reason", "own_prompt"}});
  out.add(stats.refused_cap, {{"reason", "cap"}});
  out.add(stats.refused_commit, {{"reason", "commit"}});
  out.counter("reserve_present_total", "Chunks not stored because memory already had the chunk.",
              stats.reserve_present);
  out.counter("reserve_pending_total",
              "Chunks not stored because another session was storing the same chunk.",
              stats.reserve_pending);
  out.counter("disowned_total", "Grants given back by engines without a chunk.", stats.disowned);
  out.counter("grants_asked_total", "Overdue grants for which larderd asked the engine.",
              stats.grants_asked);
  out.counter("grants_unanswered_total",
              "Overdue grants quarantined because the engine did not answer.",
              stats.grants_unanswered);
  out.counter("grants_reclaimed_total",
              "Grants of a lost session reclaimed when the engine attached again and no longer "
              "wrote the slots.",
              stats.grants_reclaimed);
}

// Labels are served model names (bounded) and constants. Namespaces and sessions stand in
// /v1/status: as labels they would grow without end.
void add_verbs(Families& out, const stats::Stats& stats) {
  out.begin(MetricType::kCounter, "verb_hashes_total",
            "Block hashes in requests of engines and of the admin API, by verb.");
  out.add(stats.asked_to_prefetch, {{"verb", "prefetch"}});
  out.add(stats.asked_to_pin, {{"verb", "pin"}});
  out.add(stats.asked_to_unpin, {{"verb", "unpin"}});
  out.add(stats.asked_to_evict, {{"verb", "evict"}});
  out.add(stats.asked_to_demote, {{"verb", "demote"}});
  out.add(stats.asked_to_keep, {{"verb", "keep"}});
}

// A rise of one of these is worth an alert: bytes in memory changed, or an engine is broken.
void add_trust(Families& out, const stats::Stats& stats) {
  out.counter("checksum_failures_total",
              "Loads whose bytes did not match the checksum; the engine recomputed the tokens.",
              stats.checksum_failures);
  out.counter("bad_reported_total", "Slots reported as corrupt by engines.", stats.bad_reported);
  out.counter("bad_confirmed_total", "Reported slots confirmed as corrupt by larderd.",
              stats.bad_confirmed);
  out.counter("loads_failed_total", "Failed loads, for any reason.", stats.loads_failed);
  out.counter("events_lost_total", "Events lost because an engine wrote faster than larderd read.",
              stats.events_lost);
}

void add_sessions(Families& out, const stats::Stats& stats) {
  out.gauge("sessions", "Attached engine processes.", stats.sessions.size());
  out.counter("sessions_opened_total", "Sessions attached since the start.", stats.sessions_opened);
  out.counter("sessions_ended_total", "Sessions that ended.", stats.sessions_ended);
  out.counter("sessions_refused_total", "Sessions refused in the handshake.",
              stats.sessions_refused);
  out.gauge("namespaces", "Namespaces with an open session or with chunks in memory, at most 1024.",
            stats.namespaces.size());
  out.counter("namespaces_given_back_total", "Namespaces whose place became free.",
              stats.namespaces_given_back);
  out.counter("namespaces_evicted_total",
              "Namespaces without a session, evicted to free their place.",
              stats.namespaces_evicted);
  out.counter("namespaces_refused_total", "Namespaces refused because all places were taken.",
              stats.namespaces_refused);
  out.counter("protocol_errors_total",
              "Sessions ended by larderd because of a message against the protocol.",
              stats.protocol_errors);
  out.counter("heartbeats_missed_total", "Sessions whose heartbeat stopped.",
              stats.heartbeats_missed);
  out.gauge("holds", "Holds on slots that engines are reading.", stats.holds);
  out.gauge("held_bytes", "Bytes of held slots.", stats.held_bytes);
  out.begin(MetricType::kGauge, "arena_held_ratio",
            "Share of the arena in held slots. larderd can reuse only the rest.");
  // The reference page has no arena: 0, not NaN.
  out.add(stats.arena_bytes == 0
              ? 0.0
              : static_cast<double>(stats.held_bytes) / static_cast<double>(stats.arena_bytes));
  out.begin(MetricType::kCounter, "holds_not_counted_total",
            "Holds that no longer protect a slot, by reason. age: too old; cap: over the cap of a "
            "session.");
  out.add(stats.holds_expired, {{"reason", "age"}});
  out.add(stats.holds_over_cap, {{"reason", "cap"}});
  out.gauge("grants", "Granted slots without a commit.", stats.grants);
  out.gauge("granted_bytes", "Bytes of granted slots without a commit.", stats.granted_bytes);
}

void add_transfer(Families& out, const stats::Stats& stats) {
  // Both rows come from the sessions of one snapshot, so that their sum is the number of sessions.
  std::uint64_t by_sidecar = 0;
  // Counted and not kept as a counter: a session may change its way of copying while it lives.
  for (const stats::SessionStats& session : stats.sessions)
    by_sidecar += session.sidecar_copies ? 1 : 0;
  out.begin(MetricType::kGauge, "transfer_sessions",
            "Attached engine processes by the copying process. shim: the engine's process; "
            "sidecar: larderd (transfer: sidecar).");
  out.add(stats.sessions.size() - by_sidecar, {{"way", "shim"}});
  out.add(by_sidecar, {{"way", "sidecar"}});
  out.begin(MetricType::kCounter, "sidecar_copies_total",
            "Chunks copied by larderd, for stores and for loads.");
  out.add(stats.transfer.stores, {{"verb", "store"}});
  out.add(stats.transfer.loads, {{"verb", "load"}});
  out.counter("sidecar_copies_failed_total", "Failed copies by larderd; the engine copied instead.",
              stats.transfer.failed);
  out.counter("sidecar_copied_bytes_total", "Bytes copied by larderd.", stats.transfer.bytes);
  out.counter("sidecar_memory_opened_total",
              "Allocations of engines' KV memory opened by larderd. larderd opens an allocation "
              "once, not for each copy.",
              stats.transfer.opened);
  out.gauge("sidecar_memory_open", "Open allocations of engines' KV memory in larderd.",
            stats.transfer.open);
}

void add_operations(Families& out, const stats::Stats& stats) {
  // Histograms and no averages: the tail decides whether engines wait.
  out.begin(MetricType::kHistogram, "operation_seconds", "Duration of one operation.");
  out.add(stats.lookup, {{"operation", "lookup"}}, kNs);
  out.add(stats.load_wait, {{"operation", "load_wait"}}, kNs);
  out.add(stats.load_copy, {{"operation", "load_copy"}}, kNs);
  out.add(stats.store_copy, {{"operation", "store_copy"}}, kNs);
  out.add(stats.reserve, {{"operation", "reserve"}}, kNs);
  out.add(stats.probe, {{"operation", "probe"}}, kNs);
}

// One row a label value. Names that become equal as valid UTF-8 share one row, since Prometheus
// refuses a double row. "other" always has a row.
std::map<std::string, stats::ModelStats> rows_by_model(const stats::Stats& stats) {
  std::map<std::string, stats::ModelStats> rows{{"other", {}}};
  for (const stats::ModelStats& model : stats.models) {
    stats::ModelStats& row = rows[valid_utf8(model.model)];
    // Sums, since two names may become one after the repair of their UTF-8.
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

// By served model name. Names are bounded by stats::kMaxModels; further models share the row
// "other".
void add_models(Families& out, const stats::Stats& stats) {
  const std::map<std::string, stats::ModelStats> rows = rows_by_model(stats);
  // Rows of a family must stand together, so each family goes through all models.
  const auto counter = [&](const char* name, const char* help,
                           std::uint64_t stats::ModelStats::*value, double parts = 1) {
    out.begin(MetricType::kCounter, name, help);
    for (const auto& [model, row] : rows)
      out.add(static_cast<double>(row.*value) / parts, {{"model", model}});
  };
  counter("requests_total", "Looked-up requests.", &stats::ModelStats::requests);
  counter("requests_hit_total", "Looked-up requests with at least one hit chunk.",
          &stats::ModelStats::requests_hit);
  counter("requests_short_total", "Requests without a hit that looked up less than one chunk.",
          &stats::ModelStats::requests_short);
  counter("requests_salted_total",
          "Requests with a cache_salt, which hit only chunks of requests with the same cache_salt.",
          &stats::ModelStats::requests_salted);
  counter("tokens_asked_total", "Looked-up prompt tokens.", &stats::ModelStats::tokens_asked);
  counter("tokens_hit_total", "Hit prompt tokens.", &stats::ModelStats::tokens_hit);
  counter("loaded_bytes_total", "Bytes loaded and verified.", &stats::ModelStats::bytes_loaded);
  counter("stored_bytes_total", "Bytes stored.", &stats::ModelStats::bytes_stored);
  counter("prefill_tokens_total", "Prompt tokens computed by the engines.",
          &stats::ModelStats::prefill_tokens);
  counter("prefill_seconds_total", "Time of the engines for the computation of prompt tokens.",
          &stats::ModelStats::prefill_ns, kNs);
  counter("prefill_saved_seconds_total",
          "Estimated time to compute the hit prompt tokens, at the measured speed of the engines. "
          "0 until an engine has computed prompt tokens.",
          &stats::ModelStats::prefill_saved_ns, kNs);
}

void add_http(Families& out, const http::Counters& http) {
  out.counter("http_requests_total", "HTTP requests answered.", http.requests);
  out.begin(MetricType::kCounter, "http_refused_total",
            "HTTP connections ended by larderd without an answer, by reason.");
  out.add(http.refused, {{"reason", "limits"}});
  out.add(http.timed_out, {{"reason", "deadline"}});
  out.add(http.crowded_out, {{"reason", "connections"}});
}

}  // namespace

std::string metrics_text(const stats::Stats& stats, bool ready, const http::Counters& http) {
  Families out;
  // This order is also the order of the reference page.
  add_identity(out, stats, ready);
  add_tiers(out, stats);
  add_memory(out, stats);
  add_estimate(out, stats);
  add_below(out, stats);
  add_fetches(out, stats);
  add_peers(out, stats);
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
  // Labels whose values come from the configuration or from engines; the page prints these texts in
  // place of values.
  constexpr http::OpenLabel kOpen[] = {{"version", "larderd's"},
                                       {"pool", "as configured"},
                                       {"nodes", "`none`, `node 1`, `nodes 0-1 interleaved`"},
                                       {"slot_bytes", "sizes of slots in use, at most 16"},
                                       {"model", "served model names, the first 31 and `other`"}};
  // The table comes from a scrape with zero statistics, so no metric can be missing there.
  stats::Stats example;
  // One empty row: a family whose rows come from engines would otherwise be missing from the page.
  example.slot_sizes.emplace_back();
  return R"(# Metrics

The metrics of `GET /metrics` at larderd and larder-operator. Each metric is present from the start
of the program, at zero. `(larderd --metrics-reference && larder-operator --metrics-reference)`
prints this page from the same code, and tests compare the page with running programs. Units are
base units (seconds, bytes). A counter ends in `_total`; a histogram has `_bucket`, `_sum` and
`_count`. The values of every label are bounded: no label names a namespace of the cache, a session,
a request or a key.

## larderd

)" + http::metrics_table(metrics_text(example, true, http::Counters()), kOpen);
}

}  // namespace larder::pages
