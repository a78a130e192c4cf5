#include "tests/unit/ctl/sample_stats.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sidecar/pages/status_json.h"
#include "tests/unit/text_file.h"

namespace larder::ctl {

stats::Stats idle_stats() {
  stats::Stats stats;
  stats.version = "0.1.0";
  stats.pool = "larder";
  stats.uptime_ms = 400;
  stats.arena_bytes = 5ULL << 30;
  stats.touched_bytes = 2ULL << 30;
  stats.arena_page_bytes = 4096;
  return stats;
}

stats::Stats busy_stats() {
  stats::Stats stats = idle_stats();
  stats.uptime_ms = 8'040'000;
  stats.touched_bytes = stats.arena_bytes;
  stats.arena_numa = "node 1";
  stats.used_bytes = 768ULL << 20;
  stats.slot_sizes = {{3154 * 1024, 2, 256, 250}};
  stats.slots_committed = 250;
  stats.evicted_capacity = 1234;
  stats.evicted_resized = 7;
  stats.evicted_bad = 1;
  stats.refused_no_space = 3;
  stats.checksum_failures = 1;
  stats.loads_failed = 2;
  stats.sessions_opened = 5;
  stats.estimate.chunks_asked = 16'000;
  for (stats::EstimatedHit& hit : stats.estimate.hits) hit.ratio = 0.9 + hit.factor / 100;
  stats.models = {{"demo", 2000, 1500, 4'096'000, 3'840'000, 47ULL << 30, 3ULL << 30, 256'000,
                   1'000'000'000'000},
                  {"a-model-with-a-rather-long-served-name-v2", 1, 0, 512, 0, 0, 0, 0, 0}};
  stats.models[0].requests_salted = 12;
  stats.namespaces = {{"0123456789abcdef0123456789abcdef", "demo",
                       std::make_shared<const std::string>("engine: vllm\n"), 250, 768ULL << 20,
                       2}};
  stats.sessions = {{1, "vllm 0.32.0 scheduler", stats.namespaces[0].id, false, 16, 0},
                    {2, "vllm 0.32.0 worker 0", stats.namespaces[0].id, true, 0, 1}};
  stats.fallbacks = {
      {"hugepages", "4 KiB pages: 3 of 2560 huge pages are free"},
      {"engines", "an engine is refused and runs without the cache: raise memory.size", 3}};
  return stats;
}

stats::Stats stats_with_disk() {
  stats::Stats stats = busy_stats();
  stats.evicted_unwritten = 3;
  stats.evicted_not_admitted = 4;
  stats.disk.place = "/var/lib/larder";
  stats.disk.takes_puts = false;
  stats.disk.reason = "writes fail: No space left on device";
  stats.disk.capacity_bytes = 100ULL << 30;
  stats.disk.used_bytes = 25ULL << 30;
  stats.disk.chunks = 8333;
  stats.disk.write_queue = 12;
  stats.disk.puts = 9001;
  stats.disk.put_bytes = 27ULL << 30;
  stats.disk.puts_failed = 2;
  stats.disk.gets = 1;
  stats.disk.get_bytes = 3154 * 1024;
  return stats;
}

Snapshot snapshot_of(const stats::Stats& stats, bool healthy, bool ready) {
  const Result<Snapshot> snapshot = read_snapshot(pages::status_json(stats, healthy, ready));
  EXPECT_TRUE(snapshot.ok()) << snapshot.status().text();
  return snapshot.ok() ? *snapshot : Snapshot();
}

Snapshot snapshot_with_backend(const std::string& reason) {
  nlohmann::json status = nlohmann::json::parse(pages::status_json(stats_with_disk(), true, true));
  status["backend"] = {
      {"url", "rediss://cache.example:6379"},
      {"mode", "TLS"},
      {"reason", reason},
      {"capacity_bytes", 0},
      {"used_bytes", 7ULL << 30},
      {"chunks", 2345},
      {"write_queue", 6},
      {"puts", {{"ok", 2000}, {"bytes", 6ULL << 30}, {"failed", 3}}},
      {"gets", {{"ok", 345}, {"bytes", 1ULL << 30}, {"failed", 4}}},
      {"probes",
       {{"asked", 500}, {"late", 2}, {"failed", 1}, {"families", 9000}, {"shared", 345}}}};
  const Result<Snapshot> snapshot = read_snapshot(status.dump());
  EXPECT_TRUE(snapshot.ok()) << snapshot.status().text();
  return snapshot.ok() ? *snapshot : Snapshot();
}

void expect_golden(const std::string& name, const std::string& screen) {
  const std::string file = std::string(GOLDEN_FOLDER) + "/" + name + ".txt";
  if (std::getenv("LARDER_TEST_WRITE_GOLDEN") != nullptr) std::ofstream(file) << screen;
  EXPECT_EQ(screen, test::text_of(file));
}

}  // namespace larder::ctl
