#include "sidecar/loop/loop_stats.h"

#include <algorithm>

#include "sidecar/base/log.h"
#include "sidecar/base/log_drain.h"

namespace larder::loop {

LoopStats::LoopStats(const std::string& pool, std::uint64_t epoch, const memory::ArenaFile& arena,
                     std::uint64_t now_ms)
    : started_ms_(now_ms) {
  stats_.version = LARDER_VERSION;
  stats_.pool = pool;
  stats_.epoch = epoch;
  // The size of the mapping and not of the setting: the arena may be rounded up to huge pages, or
  // be an earlier one.
  stats_.arena_bytes = arena.mapping.size();
  stats_.arena_page_bytes = arena.page_bytes;
  stats_.arena_numa = arena.numa;
  if (!arena.fallback.empty()) stats_.fallbacks.push_back({"hugepages", arena.fallback});
  if (!arena.numa_fallback.empty()) stats_.fallbacks.push_back({"numa", arena.numa_fallback});
}

void LoopStats::note_fallback(const std::string& what, const std::string& why) {
  // Once for each kind: a fallback such as "pidfd" comes back with each engine.
  if (std::ranges::find(stats_.fallbacks, what, &stats::Fallback::kind) != stats_.fallbacks.end())
    return;
  stats_.fallbacks.push_back({what, why});
  base::log_warning(what + ": " + why);
}

void LoopStats::replace_config_fallback(const std::string& why) {
  // Unlike other fallbacks this one can end: a later reload may put all settings in force.
  std::erase_if(stats_.fallbacks,
                [](const stats::Fallback& fallback) { return fallback.kind == "config"; });
  if (!why.empty()) stats_.fallbacks.push_back({"config", why});
}

stats::Stats LoopStats::begin_view(std::uint64_t now_ms) {
  shows_now_ = false;
  stats::Stats view = stats_;
  view.uptime_ms = now_ms - started_ms_;
  view.log_lines_dropped = base::dropped_log_lines();
  return view;
}

void LoopStats::publish(stats::Stats view) {
  // Held for a move only. Readers copy under the same lock and never make the loop wait long.
  const std::lock_guard lock(snapshot_mutex_);
  snapshot_ = std::move(view);
}

stats::Stats LoopStats::snapshot() const {
  const std::lock_guard lock(snapshot_mutex_);
  return snapshot_;
}

}  // namespace larder::loop
