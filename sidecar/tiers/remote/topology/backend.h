// Backend: all servers with chunks as one: a standalone server, the master that Sentinels name, or
// the masters of a Cluster, where the master of the slot has a key. Owned by the thread of the
// tier.
//
// Callbacks come from turn(), flush(), cancel() and restart(), never from ask().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/net/poller.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/error_reply.h"
#include "sidecar/tiers/remote/topology/cluster_routing.h"
#include "sidecar/tiers/remote/topology/master_follower.h"
#include "sidecar/tiers/remote/topology/node_set.h"
#include "sidecar/tiers/remote/topology/server_health.h"
#include "sidecar/tiers/remote/topology/slot_map.h"
#include "sidecar/tiers/remote/topology/write_gates.h"

namespace larder::remote {

class Backend {
 public:
  static constexpr std::uint32_t kMostHops = ClusterRouting::kMostHops;

  struct Listener {
    std::function<void()> ready;  // a connection is ready
    // Known chunks may be gone: a server restarted, or another server took over.
    std::function<void()> other_life;
  };
  Backend(const RemoteOptions& options, const base::Clock& clock, Listener listener);

  Status open() { return poller_.open(); }
  // One round: bytes, connections, roles of servers. Waits up to `timeout_ns` without work.
  void turn(std::uint64_t timeout_ns);
  void flush();
  std::uint64_t next_turn_ns() const;
  void wake() const { poller_.wake(); }  // thread-safe

  bool ready() const {
    return nodes_.ready();
  }                        // whether commands are possible, for some keys at least
  Status failure() const;  // why not ready; ok before the end of the first attempt
  // Sends a command to the server of this key, and follows redirections. During the first connect
  // of the server the command waits, `answer_ms` at most. kUnavailable: the server is away, and no
  // reply follows.
  Status ask(Lane lane, std::string_view key, Request request);
  // Sends a command to a replica of the key's master, once and without redirections. A replica may
  // lack new keys. False: no replica is ready, and no command is sent.
  bool ask_replica(std::string_view key, Request& request);
  // Groups keys that one command may name: in a Cluster the keys of one slot.
  std::vector<std::vector<std::string_view>> together(const std::vector<std::string>& keys) const;
  // Changes whenever the masters or their slots change.
  std::uint64_t version() const { return nodes_.version(); }
  std::size_t masters() const;
  Status ask_master(std::size_t number, Lane lane, Request request);
  // As in ServerHealth, and in `chunks` the refused chunks.
  Status refusal(std::string_view key, Lane lane) const { return health_.refusal(key, lane); }
  using Troubles = ServerHealth::Troubles;
  Troubles troubles() const;

  // As in WriteGates: the chunk with its record and parts under these keys.
  using ChunkRefusal = WriteGates::Refusal;
  ChunkRefusal chunk_refusal(const std::vector<std::string>& keys, std::uint64_t bytes) const {
    return gates_.chunk_refusal(keys, bytes);
  }
  std::optional<std::size_t> begin_chunk(const std::vector<std::string>& keys, std::uint64_t bytes,
                                         std::uint64_t of) {
    return gates_.begin_chunk(keys, bytes, of);
  }
  void chunk_stored(const std::vector<std::string>& keys, const WriteGate::Put& put) {
    gates_.chunk_stored(keys, put);
  }
  void chunk_refused(const std::string& key, const WriteGate::Put& put,
                     const ErrorMeaning& meaning) {
    gates_.chunk_refused(key, put, meaning);
  }
  void chunk_lost(const std::string& key, const WriteGate::Put& put, const Status& why) {
    gates_.chunk_lost(key, put, why);
  }
  void end_trials(std::uint64_t of) { gates_.end_trials(of); }

  // A sign that the known roles are wrong: asks for the roles again soon.
  void doubt();

  // As in Links.
  void cancel(std::uint64_t owner);
  void restart(const Status& why);

  std::uint64_t sent_bytes() const;
  std::uint64_t received_bytes() const;

 private:
  bool cluster() const { return options_.mode == Mode::kCluster; }

  const RemoteOptions& options_;
  const base::Clock& clock_;
  const Listener listener_;
  Poller poller_;
  NodeSet nodes_;
  SlotMap slots_;
  ServerHealth health_;
  WriteGates gates_;
  std::optional<MasterFollower> master_;  // with Sentinels
  ClusterRouting routing_;                // unused but in a Cluster
};

}  // namespace larder::remote
