// Backend: all servers that hold the chunks, as one: a standalone server, the master whom Sentinels name, or the masters of a
// Cluster, where each key is with the one that serves its slot. Owned by the tier's thread.
//
// backend.cc has what the modes share, cluster_ways.cc map and redirections, server_health.cc how each server does, chunk_gates.cc
// which chunks each refuses. Callbacks come from turn(), flush(), cancel() and restart(), never from within ask().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/error_reply.h"
#include "sidecar/tiers/remote/resp/poller.h"
#include "sidecar/tiers/remote/topology/health.h"
#include "sidecar/tiers/remote/topology/links.h"
#include "sidecar/tiers/remote/topology/sentinel_watch.h"
#include "sidecar/tiers/remote/topology/slots.h"
#include "sidecar/tiers/remote/topology/write_gate.h"

namespace larder::remote {

class Backend {
 public:
  static constexpr std::uint32_t kMostHops = 5;   // redirections of one command; then it has failed
  static constexpr std::size_t kMostNodes = 256;  // that are talked to at once, whoever a redirection names

  struct Listener {
    std::function<void()> ready;  // a connection is there
    // What was known to be stored may not be: a server's life is another, or another server took over from one that is gone.
    std::function<void()> other_life;
  };
  Backend(const RemoteOptions& options, const base::Clock& clock, Listener listener);

  Status open() { return poller_.open(); }
  // One round: bytes, connections, who is who. Waits up to `timeout_ns` where there is nothing to do.
  void turn(std::uint64_t timeout_ns);
  void flush();
  std::uint64_t next_turn_ns() const;
  void wake() const { poller_.wake(); }  // thread-safe

  bool ready() const;      // whether something can be asked, of some keys at least
  Status failure() const;  // why not; ok before the first attempt has ended
  // Asks the server of this key. Redirections are followed; where its connection is just being made for the first time it waits for
  // that, `answer_ms` at most. kUnavailable, and no answer: that server is away.
  Status ask(Lane lane, std::string_view key, Request request);
  // Asks a replica of this key's master, once and without redirections: what it has not been told of yet it has not. False: none is
  // there, and nothing is asked.
  bool ask_replica(std::string_view key, Request& request);
  // The keys of each command that may name several: those of a slot, in a Cluster.
  std::vector<std::vector<std::string_view>> together(const std::vector<std::string>& keys) const;
  // Of each master; who they are, and whose keys, is the same as long as this version is.
  std::uint64_t version() const { return version_; }
  std::size_t masters() const;
  Status ask_master(std::size_t number, Lane lane, Request request);
  // Why the server of this key answers nothing just now, or takes no writes; ok: it does, or there is one server alone, of which
  // troubles() tells.
  Status refusal(std::string_view key, Lane lane) const;
  // Why nobody answers, and why nobody takes writes; and where some do, which do not; and which chunks are refused. Empty: all is well.
  struct Troubles {
    std::string reads, writes, part, chunks;
  };
  Troubles troubles() const;

  // chunk_gates.cc: of the chunk whose record and parts stand under these keys. What a server refuses is not sent to it for a while.
  struct ChunkRefusal {
    Status why;                  // ok: none
    std::uint64_t again_ns = 0;  // when it should be offered again
  };
  ChunkRefusal chunk_refusal(const std::vector<std::string>& keys, std::uint64_t bytes) const;
  // It is sent now. The key whose server only tries it: that one's part goes first. Nothing: all may go.
  // `of`: names the put.
  std::optional<std::size_t> begin_chunk(const std::vector<std::string>& keys, std::uint64_t bytes, std::uint64_t of);
  // What became of it.
  void chunk_stored(const std::vector<std::string>& keys, const WriteGate::Put& put);
  void chunk_refused(const std::string& key, const WriteGate::Put& put, const ErrorMeaning& meaning);
  void chunk_lost(const std::string& key, const WriteGate::Put& put, const Status& why);
  // In any case, afterwards: slots may have moved meanwhile, so that the keys do not tell who tried it.
  void end_trials(std::uint64_t of);
  // Something says that they may not be whom we take them for: who is who is asked anew, soon.
  void doubt();

  // As Links'.
  void cancel(std::uint64_t owner);
  void restart(const Status& why);

  std::uint64_t sent_bytes() const;
  std::uint64_t received_bytes() const;

 private:
  struct Node {
    Node(const Health& fresh, const WriteGate& open) : health(fresh), gate(open) {}
    std::unique_ptr<Links> links;
    bool serves = false;        // has slots
    bool replica = false;       // is talked to as one; as a master it would be another of these
    bool stands_by = false;     // a replica: of a master that has slots
    std::uint64_t used_ns = 0;  // when something was asked last, or it was made
    Health health;              // by its error replies; it is asked again until it answers well
    bool denied = false;        // by an error that may be over after a new greeting
    bool probing = false;       // an answer is to come
    WriteGate gate;             // which chunks it refuses
    bool asking_room = false;   // an answer is to come
    std::uint64_t room_due_ns = 0;
  };
  // A command to a node of a Cluster, kept until it is answered: it may have to be asked again, elsewhere.
  struct Routed {
    Lane lane = Lane::kReads;
    std::uint16_t slot = 0;
    std::uint32_t hops = 0;
    Request request;
    Node* node = nullptr;  // who was asked last; it is not let go before it has answered
  };
  using RoutedPtr = std::shared_ptr<Routed>;
  // As many as the operations that are let in ask for, at most.
  struct Parked {
    RoutedPtr routed;
    bool asking = false;
    std::uint64_t from_ns = 0, until_ns = 0;
  };

  bool cluster() const { return options_.mode == Mode::kCluster; }
  Node& add_node(Kind kind, const Endpoint& endpoint);
  void remove_node(std::size_t number, const Status& why);
  void maintain_master(std::uint64_t now_ns);
  void follow(const Endpoint& master);

  // server_health.cc
  void answered(Node& node, Lane lane, const Reply& reply, bool chunk);
  void note_error(Node& node, const ErrorMeaning& meaning, Lane lane);
  void maintain_health(std::uint64_t now_ns);
  bool awaits_probe(const Node& node) const;
  void probe(Node& node);
  std::optional<std::string> probe_key_of(const Node& node) const;
  bool counts(const Node& node) const { return node.serves || !cluster(); }
  std::string trouble_of(const Node& node, Lane lane) const;

  // chunk_gates.cc
  Node* writer_of(std::string_view key) const;
  bool awaits_room(const Node& node) const { return node.gate.full() && !node.asking_room && node.links->ready(); }
  void maintain_gates(std::uint64_t now_ns);
  void ask_room(Node& node, std::uint64_t now_ns);
  std::string refused_chunks() const;

  // cluster_ways.cc
  Status send(const RoutedPtr& routed, Node& node, bool asking);
  void came(const RoutedPtr& routed, const Status& lost, Reply reply);
  bool redirected(const RoutedPtr& routed, const std::string& error);
  void park(const RoutedPtr& routed, bool asking, std::uint64_t from_ns);
  void send_parked(std::uint64_t now_ns);
  Node* node_at(const Endpoint& endpoint, Kind kind = Kind::kNode);
  void maintain_cluster(std::uint64_t now_ns);
  void ask_map(std::uint64_t now_ns);
  void map_came(const std::string& asked, const Status& lost, const Reply& reply);
  void adopt(const std::vector<SlotRange>& map);
  void adopt_replicas(const std::vector<SlotRange>& map);
  void retire_nodes(std::uint64_t now_ns);

  const RemoteOptions& options_;
  const base::Clock& clock_;
  const Listener listener_;
  Poller poller_;
  std::vector<std::unique_ptr<Node>> nodes_;  // standalone, Sentinel: one at most
  std::uint64_t version_ = 1;
  std::uint64_t past_sent_bytes_ = 0, past_received_bytes_ = 0;
  std::uint64_t gate_seed_ = 0;

  std::optional<SentinelWatch> sentinels_;
  std::uint64_t doubt_until_ns_ = 0;  // that the master is one
  std::uint64_t followed_ns_ = 0;     // since when it is this one

  std::array<Node*, kSlots> slots_{}, replicas_{};
  std::vector<Parked> parked_;
  Status map_failure_;
  bool map_known_ = false, map_asked_ = false;
  std::size_t map_turn_ = 0;  // whom it was asked of last
  std::uint64_t map_asked_ns_ = 0, map_due_ns_ = 0, map_wait_ns_ = 0;
};

}  // namespace larder::remote
