// The counters and the state of larderd from /v1/status, for the screens of `status` and `top`.
// Pure; thread-safe.
//
// Engines choose names; read_snapshot() makes them printable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::ctl {

struct ModelCounts {
  std::string name;
  std::uint64_t requests = 0, requests_hit = 0, asked = 0, hit = 0, loaded = 0, stored = 0;
  // Hit tokens times the seconds a token that engines of the model measured; 0 before.
  double saved_seconds = 0;
  std::uint64_t too_short = 0;  // requests without a hit for less than a chunk
  std::uint64_t salted = 0;     // requests with a cache_salt
};

struct Evictions {
  std::uint64_t capacity = 0, dropped = 0, bad = 0, resized = 0;
  std::uint64_t all() const { return capacity + dropped + bad + resized; }
};

struct MemoryState {
  std::uint64_t capacity_bytes = 0, touched_bytes = 0, used_bytes = 0, pinned_bytes = 0,
                keep_bytes = 0, page_bytes = 0;
  std::string numa;  // "none", "node 1"
  std::uint64_t chunks = 0;
  std::vector<std::uint64_t> slot_sizes;  // bytes
  Evictions evicted;
  std::uint64_t refused_no_space = 0, refused_cap = 0;  // stores
};

// The estimated hit ratio with another amount of memory.
struct EstimatedHit {
  double size = 0;  // times the configured memory
  double ratio = 0;
};

struct TierState {
  std::string place;     // the disk's directory, the backend's URL; empty: there is no such tier
  std::string reason;    // why it does not serve as it should; empty while it does
  bool serving = false;  // answers reads; with a reason it refuses chunks, or serves in part
  std::uint64_t capacity_bytes = 0, used_bytes = 0, chunks = 0, write_queue = 0;
  std::uint64_t put = 0, put_bytes = 0, got = 0, got_bytes = 0, failed = 0;
  std::uint64_t servers = 0, servers_reachable = 0;  // of peers
};

// The chunks that larderd serves to peers.
struct PeerServing {
  std::string address;  // empty: nothing
  std::uint64_t peers = 0, connections = 0, refused = 0, keys = 0, keys_found = 0, sent_bytes = 0,
                held_bytes = 0;
};

// Probes of a backend: chunks that neither memory nor disk had, and the number found in the
// backend.
struct ProbeState {
  std::uint64_t asked = 0, late = 0, failed = 0, families = 0, shared = 0;
};

struct NamespaceState {
  std::string id, model;
  std::uint64_t chunks = 0, bytes = 0, sessions = 0;
  // "field: value" lines, unchanged for comparison: use printable() before output
  std::string fingerprint;
};

struct SessionState {
  std::string engine;
  std::uint64_t holds = 0, grants = 0;
  bool silent = false;
  std::string space;  // the id of the namespace; empty before one is open
  std::string way = {}, way_reason = {},
              // The copying process, "shim" or "sidecar"; if larderd was to copy,
      // the reason why it does not.
      way_why = {};
  std::string copies_by = {};  // for an engine with pages on a GPU; else empty
  std::uint64_t registered_bytes = 0;
};

struct Sessions {
  std::vector<SessionState> attached;
  std::uint64_t opened = 0, refused = 0, protocol_errors = 0;
};

struct Fallback {
  std::string kind, why;
  std::uint64_t times = 0;  // 0: larderd does not count it, or is an older one
};

struct Snapshot {
  std::string version, pool;
  std::uint64_t epoch = 0;  // changes with each start of larderd, when counters begin at 0
  double uptime_seconds = 0;
  bool healthy = false, ready = false;
  std::vector<ModelCounts> models;
  ModelCounts all;  // their sum
  std::uint64_t loads_failed = 0, checksum_failures = 0;
  MemoryState memory;
  std::vector<EstimatedHit> estimate;  // empty: no requests yet, or an older larderd
  TierState disk, peers, backend;
  PeerServing peer_serving;
  ProbeState probes;
  std::uint64_t evicted_unwritten = 0,
                evicted_not_admitted = 0;  // from memory, and in no lower tier
  std::vector<NamespaceState> namespaces;
  Sessions sessions;
  std::vector<Fallback> fallbacks;
};

Result<Snapshot> read_snapshot(const std::string& status_json);

// "larderd 0.1.0, pool larder, up 2 h 14 min: ready"
std::string headline(const Snapshot& snapshot);

}  // namespace larder::ctl
