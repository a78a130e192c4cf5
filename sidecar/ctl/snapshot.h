// What larderd has counted so far and how it stands now, out of /v1/status. Pure; thread-safe.
//
// Names in it were chosen by engines: they are printable already.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shim/protocol/status.h"

namespace larder::ctl {

struct ModelCounts {
  std::string name;
  std::uint64_t requests = 0, requests_hit = 0, asked = 0, hit = 0, loaded = 0, stored = 0;
  double saved_seconds = 0;  // of prefill, by the engines' own speed
};

struct SessionState {
  std::string engine;
  std::uint64_t holds = 0, grants = 0;
  bool silent = false;
};

struct Snapshot {
  std::string version, pool;
  std::uint64_t epoch = 0;  // another one: another life of larderd, whose counters begin at 0
  double uptime_seconds = 0;
  bool healthy = false, ready = false;
  std::vector<ModelCounts> models;
  ModelCounts all;  // their sum
  std::uint64_t evicted = 0;
  std::uint64_t capacity_bytes = 0, used_bytes = 0, chunks = 0;
  std::vector<SessionState> sessions;
};

Result<Snapshot> read_snapshot(const std::string& status_json);

// "larderd 0.1.0, pool larder, up 2 h 14 min: ready"
std::string headline(const Snapshot& snapshot);

}  // namespace larder::ctl
