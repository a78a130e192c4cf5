// LoopStats: the counters of the loop, and the snapshot of them that other threads read.
//
// Owned by the thread of the loop; snapshot() is thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "sidecar/loop/refused_engines.h"
#include "sidecar/memory/arena_file.h"
#include "sidecar/stats/stats.h"

namespace larder::loop {

class LoopStats {
 public:
  // Notes the facts that do not change, and the fallbacks of the arena.
  LoopStats(const std::string& pool, std::uint64_t epoch, const memory::ArenaFile& arena,
            std::uint64_t now_ms);
  LoopStats(const LoopStats&) = delete;

  stats::Stats& counters() { return stats_; }
  std::uint64_t started_ms() const { return started_ms_; }

  // Shows and logs a fallback, unless one with the name `what` is shown already.
  void note_fallback(const std::string& what, const std::string& why);
  // Replaces the fallback of the settings that are not in force. Empty: all are in force.
  void replace_config_fallback(const std::string& why);
  // An engine was refused for this reason.
  void note_refused(const std::string& why, std::uint64_t now_ms) { refused_.note(why, now_ms); }

  // A session came or went: the snapshot is renewed before the next tick.
  void show_soon() { shows_now_ = true; }
  bool due() const { return shows_now_; }

  // A snapshot is made in three steps: begin_view(), the other parts of larderd and fill_refused()
  // fill the view in, publish().
  stats::Stats begin_view(std::uint64_t now_ms);
  void fill_refused(stats::Stats& view, std::uint64_t now_ms) { refused_.fill(view, now_ms); }
  void publish(stats::Stats view);
  stats::Stats snapshot() const;

 private:
  stats::Stats stats_;
  RefusedEngines refused_;
  const std::uint64_t started_ms_;
  bool shows_now_ = false;
  mutable std::mutex snapshot_mutex_;
  stats::Stats snapshot_;
};

}  // namespace larder::loop
