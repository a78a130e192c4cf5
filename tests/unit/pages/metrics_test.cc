#include "sidecar/pages/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace larder::pages {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string text_of(const stats::Stats& stats) {
  return metrics_text(stats, true, http::Counters());
}

// Names of all series with their labels; histogram parts and values left out.
std::set<std::string> series(const std::string& text) {
  std::set<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#") || line.empty()) continue;
    EXPECT_TRUE(names.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
  return names;
}

TEST(MetricsTest, AllSeriesExistFromTheStart) {
  const std::string empty = text_of({});
  EXPECT_THAT(empty, HasSubstr("larder_tokens_hit_total{model=\"other\"} 0"));
  for (const char* kind :
       {"backend", "disk", "engines", "hugepages", "memory", "numa", "peers", "pidfd"})
    EXPECT_THAT(empty, HasSubstr(std::string("larder_fallback{kind=\"") + kind + "\"} 0"));
  EXPECT_THAT(empty, HasSubstr("larder_operation_seconds_count{operation=\"lookup\"} 0"));
  EXPECT_THAT(empty, HasSubstr("larder_evictions_total{tier=\"dram\",reason=\"bad\"} 0"));
  EXPECT_THAT(empty, HasSubstr("# TYPE larder_requests_total counter"));

  stats::Stats busy;
  busy.lookup.record(1000);
  busy.fallbacks = {{"hugepages", "why"}};
  busy.models = {{"other", 1, 1, 1, 1, 1, 1, 1, 1}};
  busy.evicted_bad = busy.refused_cap = busy.holds = 1;
  busy.disk.place = "/d";
  busy.disk.mode = "io_uring";
  busy.backend.place = "redis://r";
  busy.backend.mode = "TLS";
  busy.probes = busy.probe_hits_shared = 1;
  busy.probe.record(1000);
  busy.decisions = {1, 2, 3, 4, 5};
  busy.age_at_eviction.record(5000);
  busy.estimate.reuse_distance.record(1 << 30);
  busy.disk.put_time.record(1000);
  busy.disk.puts = busy.disk.gets_missed = busy.disk.evicted_expired = 1;
  EXPECT_EQ(series(text_of(busy)), series(empty))
      << "a series that only appears with its first event breaks rate()";
}

TEST(MetricsTest, EstimateOfMoreMemoryIsExported) {
  stats::Stats stats;
  stats.arena_bytes = 4 << 20;
  stats.held_bytes = 1 << 20;
  stats.estimate.hits[2].ratio = 0.75;
  stats.estimate.reuse_distance.record(3 << 20, 10, 30 << 20);
  stats.age_at_eviction.record(90'000);
  stats.decisions[2] = 6;
  stats.models = {{"llama", 10, 8, 4096, 3840, 100, 200, 256, 2'500'000'000}};
  stats.models[0].prefill_saved_ns = 7'000'000'000;
  stats.backend.get_time.record(2'000'000'000);
  const std::string text = text_of(stats);
  EXPECT_THAT(text, HasSubstr("larder_estimated_hit_ratio{size=\"0.5\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("larder_estimated_hit_ratio{size=\"2\"} 0.75\n"));
  EXPECT_THAT(text, HasSubstr("larder_reuse_distance_bytes_bucket{le=\"1048576\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("larder_reuse_distance_bytes_bucket{le=\"4194304\"} 10\n"));
  EXPECT_THAT(text, HasSubstr("larder_reuse_distance_bytes_sum 31457280\n"));
  EXPECT_THAT(text, HasSubstr("larder_age_at_eviction_seconds_bucket{le=\"64\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("larder_age_at_eviction_seconds_bucket{le=\"256\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("larder_load_decisions_total{decision=\"recompute\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("larder_prefill_saved_seconds_total{model=\"llama\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("larder_arena_held_ratio 0.25\n"));
  EXPECT_THAT(text, HasSubstr("larder_tier_bytes_total{tier=\"dram\",operation=\"get\"} 100\n"));
  EXPECT_THAT(
      text, HasSubstr("larder_tier_operation_seconds_sum{tier=\"backend\",operation=\"get\"} 2\n"));
}

TEST(MetricsTest, CountsAndUnits) {
  stats::Stats stats;
  stats.version = "1.2.3";
  stats.pool = "blue";
  stats.uptime_ms = 1500;
  stats.arena_bytes = 5ULL << 30;
  stats.models = {{"llama", 10, 8, 4096, 3840, 100, 200, 256, 2'500'000'000}};
  stats.models[0].requests_salted = 3;
  stats.sessions.resize(2);
  stats.fallbacks = {{"hugepages", "none are free"}};
  stats.arena_numa = "node 1";
  const std::string text = text_of(stats);
  EXPECT_THAT(text, HasSubstr("larder_build_info{version=\"1.2.3\",pool=\"blue\"} 1"));
  EXPECT_THAT(text, HasSubstr("larder_uptime_seconds 1.5"));
  EXPECT_THAT(text, HasSubstr("larder_tier_capacity_bytes{tier=\"dram\"} 5368709120"));
  EXPECT_THAT(text, HasSubstr("larder_tokens_hit_total{model=\"llama\"} 3840"));
  EXPECT_THAT(text, HasSubstr("larder_prefill_seconds_total{model=\"llama\"} 2.5"));
  EXPECT_THAT(text, HasSubstr("larder_requests_salted_total{model=\"llama\"} 3"));
  EXPECT_THAT(text, HasSubstr("larder_sessions 2"));
  EXPECT_THAT(text, HasSubstr("larder_arena_numa{nodes=\"node 1\"} 1"));
  EXPECT_THAT(text, HasSubstr("larder_fallback{kind=\"hugepages\"} 1"));
}

TEST(MetricsTest, TheDiskTier) {
  stats::Stats stats;
  stats.evicted_unwritten = 4;
  stats.evicted_not_admitted = 5;
  stats.disk.mode = "threads";
  stats.disk.takes_puts = false;
  stats.disk.capacity_bytes = 1 << 30;
  stats.disk.chunks = 5;
  stats.disk.put_bytes = 6;
  stats.disk.written_bytes = 7;
  stats.disk.gets_missed = 8;
  stats.disk.evicted_capacity = 9;
  stats.disk.read_window_bytes = 10;
  const std::string text = text_of(stats);
  EXPECT_THAT(text, HasSubstr("larder_tier_capacity_bytes{tier=\"disk\"} 1073741824"));
  EXPECT_THAT(text, HasSubstr("larder_tier_chunks{tier=\"disk\"} 5"));
  EXPECT_THAT(text, HasSubstr("larder_tier_bytes_total{tier=\"disk\",operation=\"put\"} 6"));
  EXPECT_THAT(text,
              HasSubstr("larder_tier_device_bytes_total{tier=\"disk\",direction=\"write\"} 7"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "larder_tier_operations_total{tier=\"disk\",operation=\"get\",result=\"missed\"} 8"));
  EXPECT_THAT(text, HasSubstr("larder_evictions_total{tier=\"disk\",reason=\"capacity\"} 9"));
  EXPECT_THAT(text, HasSubstr("larder_evicted_unwritten_total 4"));
  EXPECT_THAT(text, HasSubstr("larder_evicted_not_admitted_total 5"));
  EXPECT_THAT(text, HasSubstr("larder_tier_window_bytes{tier=\"disk\",direction=\"read\"} 10"));
  EXPECT_THAT(text, HasSubstr("larder_tier_degraded{tier=\"disk\"} 1"));
  EXPECT_THAT(text, HasSubstr("larder_tier_mode{tier=\"disk\",mode=\"threads\"} 1"));
  EXPECT_THAT(text, HasSubstr("larder_tier_mode{tier=\"disk\",mode=\"io_uring\"} 0"));
}

TEST(MetricsTest, TheBackend) {
  stats::Stats stats;
  stats.backend.mode = "TLS";
  stats.backend.takes_gets = false;
  stats.backend.gets = 5;
  stats.backend.read_bytes = 6;
  stats.backend.serving = true;
  stats.backend.read_latency_ns = 2'000'000;
  stats.probes = 7;
  stats.probes_late = 8;
  stats.probes_failed = 9;
  stats.probe_hits_shared = 10;
  stats.probe.record(2000);
  const std::string text = text_of(stats);
  EXPECT_THAT(
      text,
      HasSubstr(
          "larder_tier_operations_total{tier=\"backend\",operation=\"get\",result=\"ok\"} 5"));
  EXPECT_THAT(text,
              HasSubstr("larder_tier_device_bytes_total{tier=\"backend\",direction=\"read\"} 6"));
  EXPECT_THAT(text, HasSubstr("larder_tier_degraded{tier=\"backend\"} 1"));
  EXPECT_THAT(text, HasSubstr("larder_tier_serving{tier=\"backend\"} 1"));
  EXPECT_THAT(text, HasSubstr("larder_tier_serving{tier=\"disk\"} 0"));
  EXPECT_THAT(text, HasSubstr("larder_tier_read_latency_seconds{tier=\"backend\"} 0.002"));
  EXPECT_THAT(text, HasSubstr("larder_tier_mode{tier=\"backend\",mode=\"TLS\"} 1"));
  EXPECT_THAT(text, HasSubstr("larder_probes_total 7"));
  EXPECT_THAT(text, HasSubstr("larder_probes_late_total 8"));
  EXPECT_THAT(text, HasSubstr("larder_probes_failed_total 9"));
  EXPECT_THAT(text, HasSubstr("larder_probe_hits_shared_total 10"));
  EXPECT_THAT(text, HasSubstr("larder_operation_seconds_count{operation=\"probe\"} 1"));
}

TEST(MetricsTest, HistogramsAreCumulative) {
  stats::Stats stats;
  stats.lookup.record(900);         // <= 1 us
  stats.lookup.record(3000);        // <= 4 us
  stats.lookup.record(1ULL << 40);  // above the last bound
  const std::string text = text_of(stats);
  EXPECT_THAT(text,
              HasSubstr("larder_operation_seconds_bucket{operation=\"lookup\",le=\"1e-06\"} 1"));
  EXPECT_THAT(text,
              HasSubstr("larder_operation_seconds_bucket{operation=\"lookup\",le=\"4e-06\"} 2"));
  EXPECT_THAT(text,
              HasSubstr("larder_operation_seconds_bucket{operation=\"lookup\",le=\"+Inf\"} 3"));
  EXPECT_THAT(text, HasSubstr("larder_operation_seconds_count{operation=\"lookup\"} 3"));
}

// An engine chooses its model's name, and must not be able to spoil the scrape.
TEST(MetricsTest, HostileModelNamesAreEscaped) {
  stats::Stats stats;
  stats.models = {{"a\"} 1\nlarder_fake 1", 1, 0, 0, 0, 0, 0, 0, 0},
                  {"\xff", 2, 0, 0, 0, 0, 0, 0, 0},
                  {"\xfe", 3, 0, 0, 0, 0, 0, 0, 0}};
  const std::string text = text_of(stats);
  EXPECT_THAT(text, Not(HasSubstr("\nlarder_fake")));
  EXPECT_THAT(text, Not(HasSubstr("\xff")));
  EXPECT_THAT(text, HasSubstr("larder_requests_total{model=\"\xEF\xBF\xBD\"} 5"))
      << "names that become equal are one series";
  series(text);
}

TEST(MetricsTest, NamespacesAndSessionsAreNotLabels) {
  stats::Stats stats;
  stats.namespaces = {{"0123456789abcdef0123456789abcdef", "m",
                       std::make_shared<const std::string>("text"), 1, 1, 1}};
  stats.sessions = {{1, "vllm worker", "0123456789abcdef0123456789abcdef", false, 0, 0}};
  EXPECT_THAT(text_of(stats), Not(HasSubstr("0123456789abcdef")));
  EXPECT_THAT(text_of(stats), Not(HasSubstr("vllm worker")));
}

}  // namespace
}  // namespace larder::pages
