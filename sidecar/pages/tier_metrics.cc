#include "sidecar/pages/tier_metrics.h"

#include <string>
#include <vector>

namespace larder::pages {
namespace {

// The lower tiers, with the names of their modes: each mode has a row, so that a dashboard can list
// modes that are not in use.
struct Below {
  std::string name;
  const stats::TierStats& stats;
  std::vector<const char*> modes;
};
// References into the snapshot, which outlives the page. An absent tier is a row of zeros.
std::vector<Below> below(const stats::Stats& stats) {
  return {{"disk", stats.disk, {"io_uring", "threads"}},
          {"peers", stats.peers, {"TCP", "TLS"}},
          {"backend", stats.backend, {"TCP", "TLS", "Unix socket"}}};
}

void add_below_operations(Families& out, const stats::Stats& stats) {
  out.begin(MetricType::kCounter, "tier_operations_total",
            "Operations of a tier by result. disk, peers and backend: one chunk each; dram: stores "
            "and loads of engines, of many chunks each.");
  // Memory has no device of its own: its operations are the loads and stores of engines.
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
  out.begin(MetricType::kCounter, "tier_bytes_total",
            "Bytes of chunks written to a tier (put) and read from a tier (get).");
  // Only models count bytes of memory; their sum is the traffic of the tier.
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
  // Only successful operations: a refusal within microseconds would hide a slow disk.
  out.begin(MetricType::kHistogram, "tier_operation_seconds",
            "Duration of a successful operation of a tier. disk, peers and backend: one chunk, "
            "from the request to the answer of the tier; dram: the copy of a whole store or load.");
  out.add(stats.store_copy, {{"tier", "dram"}, {"operation", "put"}}, kNs);
  out.add(stats.load_copy, {{"tier", "dram"}, {"operation", "get"}}, kNs);
  for (const Below& tier : below(stats)) {
    out.add(tier.stats.put_time, {{"tier", tier.name}, {"operation", "put"}}, kNs);
    out.add(tier.stats.get_time, {{"tier", tier.name}, {"operation", "get"}}, kNs);
  }
  out.begin(MetricType::kCounter, "tier_device_bytes_total",
            "Bytes written to and read from the device of a tier.");
  for (const Below& tier : below(stats)) {
    out.add(tier.stats.written_bytes, {{"tier", tier.name}, {"direction", "write"}});
    out.add(tier.stats.read_bytes, {{"tier", tier.name}, {"direction", "read"}});
  }
}

}  // namespace

// An absent tier shows zeros, as every family exists from the start.
void add_tiers(Families& out, const stats::Stats& stats) {
  const auto all = [&](const char* name, const char* help, std::uint64_t dram,
                       std::uint64_t stats::TierStats::*value) {
    out.begin(MetricType::kGauge, name, help);
    out.add(dram, {{"tier", "dram"}});
    for (const Below& tier : below(stats)) out.add(tier.stats.*value, {{"tier", tier.name}});
  };
  all("tier_capacity_bytes",
      "Bytes that a tier can hold; 0 without such a tier, or if the size is unknown.",
      stats.arena_bytes, &stats::TierStats::capacity_bytes);
  all("tier_used_bytes",
      "Bytes of the chunks in a tier. dram: without digests and padding; peers and backend: the "
      "chunks that this larderd knows.",
      stats.used_bytes, &stats::TierStats::used_bytes);
  all("tier_chunks", "Chunks in a tier; peers and backend: the chunks that this larderd knows.",
      stats.slots_committed, &stats::TierStats::chunks);
  // The reasons of memory and of lower tiers differ, so the rows are written out and not generated.
  out.begin(MetricType::kCounter, "evictions_total", "Chunks removed from a tier, by reason.");
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
              "Chunks evicted from memory before the write to a lower tier, because too many "
              "chunks left at once.",
              stats.evicted_unwritten);
  out.counter("evicted_not_admitted_total",
              "Chunks evicted from memory that larderd does not write to a lower tier: used too "
              "rarely, too old or too large.",
              stats.evicted_not_admitted);
}

void add_below(Families& out, const stats::Stats& stats) {
  add_below_operations(out, stats);
  // `value`: a function, since some rows derive from several fields (degraded: puts or gets
  // refused).
  const auto each = [&](MetricType type, const char* name, const char* help, const auto& value) {
    out.begin(type, name, help);
    for (const Below& tier : below(stats)) out.add(value(tier.stats), {{"tier", tier.name}});
  };
  using Tier = stats::TierStats;
  // The rows of a family must stand together in the text format. Each metric therefore goes through
  // all tiers.
  const auto counter = [&](const char* name, const char* help, std::uint64_t Tier::*value) {
    each(MetricType::kCounter, name, help, [value](const Tier& tier) { return tier.*value; });
  };
  counter("tier_refused_total",
          "Operations refused by a tier, because of too many operations or because the tier is "
          "degraded.",
          &Tier::refused);
  counter("tier_deadlines_missed_total",
          "Operations of a tier without an answer before the deadline.", &Tier::deadlines_missed);
  counter("tier_corrupt_total", "Corrupt chunks in a tier.", &Tier::records_corrupt);
  counter("tier_degradations_total", "Times that a tier became degraded.", &Tier::times_degraded);
  counter("tier_unqueued_total",
          "Stored chunks that found the queue to a tier full; larderd writes the chunks later.",
          &Tier::not_queued);
  // 1 for a tier that refuses writes, even if it still serves reads: both need a person.
  each(MetricType::kGauge, "tier_degraded",
       "1 while a tier refuses writes or reads; /v1/status gives the reason.",
       [](const Tier& tier) { return std::uint64_t{!tier.takes_puts || !tier.takes_gets}; });
  each(MetricType::kGauge, "tier_in_flight_bytes", "Bytes on the way to or from a tier.",
       [](const Tier& tier) { return tier.in_flight_bytes; });
  out.begin(MetricType::kGauge, "tier_window_bytes",
            "Limit of the bytes in flight at the device of a tier, chosen by the measured speed.");
  for (const Below& tier : below(stats)) {
    out.add(tier.stats.read_window_bytes, {{"tier", tier.name}, {"direction", "read"}});
    out.add(tier.stats.write_window_bytes, {{"tier", tier.name}, {"direction", "write"}});
  }
  each(MetricType::kGauge, "tier_write_queue",
       "Chunks that wait for a write to a tier or are being written.",
       [](const Tier& tier) { return tier.write_queue; });
  out.begin(MetricType::kGauge, "tier_mode", "1 for the current way to the device of a tier.");
  for (const Below& tier : below(stats))
    // One row for each mode, 0 or 1: a label with the current text would leave stale series behind.
    for (const char* mode : tier.modes)
      out.add(std::uint64_t{tier.stats.mode == mode}, {{"tier", tier.name}, {"mode", mode}});
  each(MetricType::kGauge, "tier_serving",
       "1 while a tier accepts reads and answers in time. Engines fetch from serving tiers only.",
       [](const Tier& tier) { return std::uint64_t{tier.serving}; });
  each(MetricType::kGauge, "tier_read_latency_seconds",
       "Measured time of a small fetch, from the request to the bytes in memory.",
       [](const Tier& tier) { return static_cast<double>(tier.read_latency_ns) * 1e-9; });
  each(MetricType::kGauge, "tier_read_bytes_per_second", "Measured read speed of a tier.",
       [](const Tier& tier) { return tier.read_bytes_per_s; });
}

// Without a `tier` label: one fetch reads from all lower tiers.
void add_fetches(Families& out, const stats::Stats& stats) {
  out.counter("fetches_total", "Fetches requested by engines.", stats.fetches);
  out.counter("fetches_late_total",
              "Fetches that ended at the deadline before the last chunk arrived.",
              stats.fetches_late);
  out.gauge("fetches_kept", "Fetches that run, or whose chunks larderd keeps for the engine.",
            stats.fetches_kept);
  out.counter("fetch_hits_total",
              "Families (all shards and KV groups of a chunk) that were complete in memory at the "
              "end of a fetch.",
              stats.fetch_hits);
  out.counter("chunks_promoted_total", "Chunks promoted from a lower tier into memory.",
              stats.chunks_promoted);
  out.counter("promoted_bytes_total", "Bytes promoted from a lower tier into memory.",
              stats.promoted_bytes);
  out.counter("promotions_failed_total", "Failed promotions of chunks.", stats.promotions_failed);
  out.counter(
      "probes_total",
      "Probes of engines for the part of a prompt in memory, disk, peers and backend together.",
      stats.probes);
  out.counter("probes_late_total",
              "Probes that peers or the backend did not answer before the deadline.",
              stats.probes_late);
  out.counter("probes_failed_total",
              "Probes for which larderd could ask neither peers nor the backend.",
              stats.probes_failed);
  out.counter("probe_hits_total", "Families (all shards and KV groups of a chunk) found by probes.",
              stats.probe_hits);
  out.counter("probe_hits_shared_total", "Chunks found by probes only at peers or in the backend.",
              stats.probe_hits_shared);
}

}  // namespace larder::pages
