// WriteGates: the gates of all servers: a refused chunk and other chunks of its size are not sent
// to that server for a while. Owned by the thread of the tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/topology/node_set.h"
#include "sidecar/tiers/remote/topology/server_health.h"
#include "sidecar/tiers/remote/topology/slot_map.h"
#include "sidecar/tiers/remote/topology/write_gate.h"

namespace larder::remote {

class WriteGates {
 public:
  // All arguments outlive this object.
  WriteGates(const RemoteOptions& options, const base::Clock& clock, NodeSet& nodes,
             const SlotMap& slots, ServerHealth& health)
      : options_(options), clock_(clock), nodes_(nodes), slots_(slots), health_(health) {}
  WriteGates(const WriteGates&) = delete;
  WriteGates& operator=(const WriteGates&) = delete;

  struct Refusal {
    Status why;                  // ok: not refused
    std::uint64_t again_ns = 0;  // the time of the next offer
  };
  // The chunk with its record (the first key) and parts under these keys. A refused chunk is not
  // sent to the server for a while.
  Refusal chunk_refusal(const std::vector<std::string>& keys, std::uint64_t bytes) const;
  // The chunk is sent now. Returns the number of the key of a server that takes the chunk as a
  // trial: the part of this key goes first. Empty: all parts may go. `of`: the number of the put.
  std::optional<std::size_t> begin_chunk(const std::vector<std::string>& keys, std::uint64_t bytes,
                                         std::uint64_t of);
  // The end of the put: stored, refused by a server, or lost with a connection.
  void chunk_stored(const std::vector<std::string>& keys, const WriteGate::Put& put);
  void chunk_refused(const std::string& key, const WriteGate::Put& put,
                     const ErrorMeaning& meaning);
  void chunk_lost(const std::string& key, const WriteGate::Put& put, const Status& why);
  // Call after every put: slots may have moved, so the keys do not give the server of the trial.
  void end_trials(std::uint64_t of);

  // The refused chunks of the first server with a closed gate, or empty.
  std::string refused_chunks() const;
  // Asks full servers for the amount of free memory.
  void maintain(std::uint64_t now_ns);
  std::uint64_t next_ns(
      std::uint64_t now_ns) const;  // the time of the next question, at least `now_ns`

 private:
  bool cluster() const { return options_.mode == Mode::kCluster; }
  Node* writer_of(std::string_view key) const;
  bool awaits_room(const Node& node) const {
    return node.gate.full() && !node.asking_room && node.links->ready();
  }
  void ask_room(Node& node, std::uint64_t now_ns);

  const RemoteOptions& options_;
  const base::Clock& clock_;
  NodeSet& nodes_;
  const SlotMap& slots_;
  ServerHealth& health_;
};

}  // namespace larder::remote
