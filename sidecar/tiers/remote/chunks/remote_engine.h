// RemoteEngine: the remote tier without its thread: commands in, messages out, one turn at a time. Owned by one thread.
//
// remote_engine.cc has what all operations share, chunk_ways.cc the way of a get and a look, put_ways.cc that of a put, remote_care.cc
// what error replies mean, drops and flushes, unwanted.cc what is forgotten, evicted or left behind.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/chunks/known_chunks.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/error_reply.h"
#include "sidecar/tiers/remote/topology/backend.h"
#include "sidecar/tiers/remote/topology/health.h"
#include "sidecar/tiers/tier.h"

namespace larder::remote {

struct Command {
  enum class Kind : std::uint8_t { kOperation, kForget, kEvict };
  Kind kind = Kind::kOperation;
  tiers::Operation operation = tiers::Operation::kPut;
  tiers::Ticket ticket = 0;
  tiers::ChunkKey key;  // drop: its namespace alone
  tiers::ChunkFacts facts;
  std::span<std::byte> slot;
  std::uint64_t deadline_ns = 0;
  std::vector<tiers::ChunkKey> keys = {};  // look
};

struct Outcome {
  tiers::Message message;
  std::uint64_t freed_bytes = 0;  // of the bytes accepted
};

class RemoteEngine {
 public:
  static constexpr std::size_t kMostDrops = 1024;  // that the server has not done yet

  static constexpr std::size_t kMostUnwanted = 4096;  // but for evictions, which who asks for them bounds

  // All of them outlive it. Drops hide their namespace in `known` before they are accepted, and it is shown when done.
  RemoteEngine(const base::Clock& clock, const RemoteOptions& options, KnownChunks& known);

  Status start() { return backend_.open(); }
  void accept(Command command);
  // One round: what came, what that allows to be sent, deadlines. Waits up to `timeout_ns` where there is nothing to do.
  void turn(std::uint64_t timeout_ns);
  void take_outcomes(std::vector<Outcome>& out);
  // At most this long may pass until the next turn.
  std::uint64_t next_turn_ns() const;
  void wake() const { backend_.wake(); }  // thread-safe

  // Whether nothing is left to do, as far as the server lets it.
  bool idle() const { return live_.empty() && (!backend_.ready() || !removing(UINT64_MAX)); }
  // Answers everything that is not answered; no slot is touched afterwards.
  void abandon(const Status& why);

  tiers::TierState state() const;
  tiers::TierCounters counters() const;  // without `refused` and what is in flight
  std::size_t drops() const { return drops_.size(); }
  std::size_t unwanted() const { return garbage_.size(); }

 private:
  struct Op {
    Command command;
    std::uint64_t serial = 0;
    bool started = false;                       // something of it is asked
    bool probed = false;                        // a put: it knows what stood there
    bool done = false;                          // its message is out
    bool cancelled = false;                     // dropped or evicted meanwhile: whatever the server says, it failed
    bool missing = false;                       // a part is not there
    WriteGate::Put put;                         // a put: as its servers' gates see it
    std::optional<std::size_t> trial;           // a put: the part that goes first, where a server only tries the chunk
    std::string failed_key;                     // a put: of the command whose failure is `failed`; empty: none
    std::optional<ErrorMeaning> refused;        // a put: what the server said of that command
    bool unsent = false;                        // a put: nothing was sent for want of a connection
    std::uint64_t again_ns = 0;                 // a put: as the message says
    bool by_replica = false;                    // a get: some of its parts are asked of replicas
    bool masters = false;                       // a get: they did not have them all
    std::size_t waiting = 0;                    // answers to come
    Status failed;                              // the first of them that did
    Record record;                              // a put: without a writing until its parts are sent
    std::uint64_t partial = 0;                  // a get: the writing of which a part is not there
    std::uint64_t moving = 0;                   // bytes of its slot that are counted as on their way
    std::uint64_t ttl_ms = 0;                   // a put: how long it is kept, 0: for ever
    std::uint64_t dropped = 0;                  // a drop: records
    std::vector<bool> there;                    // a look
    bool answered = false;                      // a look: of one key at least
    std::vector<tiers::ChunkKey> evicted = {};  // a look: of its keys, meanwhile
  };
  using OpPtr = std::shared_ptr<Op>;  // shared by the lists and by what runs when an answer comes
  struct Drop {
    OpPtr op;
    std::uint64_t serial = 0;
    std::string cursor = "0";
    std::size_t master = 0;     // that is scanned
    std::uint64_t version = 0;  // of who they are; where that changes it begins again
    bool asked = false;         // an answer is to come
    std::uint64_t step_ns = 0;  // when this step began
    std::uint64_t wait_ns = 0;  // after a failure; doubles
    std::string refused;        // why the server does not do it
  };
  // What is to be unlinked.
  struct Unwanted {
    // A record of this generation, or whatever stands there, or what is no record there: its key alone counts, or key and generation.
    // The record of this writing with its parts; the parts of this writing, unless its record is there.
    enum class What : std::uint8_t { kGeneration, kChunk, kGarbage, kWriting, kParts };
    What what = What::kChunk;
    Record record;
    std::uint64_t serial = 0;
    bool asked = false;         // an answer is to come
    bool away = false;          // its server was, or one of a part
    std::uint64_t wait_ns = 0;  // not 0: the server refused it
    std::uint64_t next_ns = 0;  // not tried before
    // Later operations wait for this one.
    bool waited_for() const { return wait_ns == 0 && !away; }  // mutation: bad-node-garbage
  };

  // remote_engine.cc
  void finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts = {});
  void moves(const OpPtr& op, std::uint64_t bytes);
  void fail_waiting(bool puts, bool gets);
  void miss_deadlines();
  Request request_of(const OpPtr& op, const std::vector<std::string_view>& words, const char* types, Then then) const;
  Status ask(Lane lane, const OpPtr& op, const std::vector<std::string_view>& words, const char* types, Then then);
  void unlink(const std::vector<std::string>& keys, std::size_t writers, Then then);
  bool answered(const OpPtr& op, const Status& lost, const Reply& reply);

  // chunk_ways.cc
  void pump_reads();
  void start_get(const OpPtr& op);
  Status read_record(const OpPtr& op, const tiers::ChunkKey& key, Then then);
  void ask_record(const OpPtr& op);
  void record_came(const OpPtr& op, const Status& lost, const Reply& reply);
  void ask_parts(const OpPtr& op);
  void part_came(const OpPtr& op, std::size_t wanted, const Status& lost, const Reply& reply);
  void parts_came(const OpPtr& op);
  void start_probe(const OpPtr& op);
  void key_looked_at(const OpPtr& op, std::size_t number, const Status& lost, const Reply& reply);
  Status refusal_of(const Record& record, Lane lane) const;
  void know(const Record& record, std::uint64_t left_ms);
  std::uint64_t left_ms(const Record& record) const;

  // put_ways.cc
  void pump_writes();
  void start_put(const OpPtr& op);
  void put_probed(const OpPtr& op, const Status& lost, const Reply& reply);
  void send_probed();
  void send_parts(const OpPtr& op);
  void send_part(const OpPtr& op, std::size_t number);
  void part_stored(const OpPtr& op, std::size_t number, const Status& lost, const Reply& reply);
  void parts_stored(const OpPtr& op);
  void record_stored(const OpPtr& op, const Status& lost, const Reply& reply);
  void note_failure(const OpPtr& op, const std::string& key, const Status& lost, const Reply& reply);
  std::vector<std::string> gate_keys(const Record& record) const;
  bool refuses(const OpPtr& op, const std::vector<std::string>& keys);
  void tell_gates(const OpPtr& op, const Status& status);

  // remote_care.cc
  void maintain_health();
  void follow(Health::Cause cause, const std::string& reason);
  void drop(const OpPtr& op);
  const Drop* dropping(const protocol::NamespaceId& id) const;
  void maintain_drops();
  void scanned(const Status& lost, const Reply& reply);
  void drop_keys(const std::vector<std::string>& keys, const std::function<void(std::uint64_t gone)>& then);
  void scan_on(const std::string& cursor);
  void drop_refused(const Reply& reply);
  void drop_failed(const Status& why);
  void drop_done();
  void maintain_flushes();
  // `kind`: a fixed name, by which lines of one kind are bounded.
  void say(std::string_view kind, const std::string& text) const;

  // unwanted.cc
  void forget(const tiers::ChunkKey& key, std::uint64_t generation);
  void evict(const tiers::ChunkKey& key);
  void remove(Unwanted::What what, const Record& record);
  void leave_behind(const Record& record);
  bool was_forgotten(const Record& record) const;
  static bool is_meant(const Unwanted& one, const Record& record);
  static bool is_garbage(const Reply& there, const std::optional<Record>& record);
  const Unwanted* garbage_before(const Op& put) const;
  bool put_before(const Unwanted& one) const;
  bool removing(std::uint64_t before_serial) const;
  void maintain_garbage();
  void garbage_came(std::uint64_t serial, const Status& lost, const Reply& reply);
  void take_record(Unwanted& one);
  void record_taken(std::uint64_t serial, const Status& lost, const Reply& reply);
  void give_back(const Record& record);
  std::vector<std::string> part_keys(const Unwanted& one) const;
  void unlink_unwanted(Unwanted& one, const std::vector<std::string>& keys);
  void put_off(Unwanted& one);

  const base::Clock& clock_;
  const RemoteOptions& options_;
  KnownChunks& known_;
  Health health_;
  Backend backend_;

  std::list<OpPtr> live_;  // accepted, not done
  std::deque<OpPtr> reads_, writes_;
  std::size_t looking_ = 0;       // puts whose look is on its way
  std::deque<OpPtr> probed_;      // puts that may be sent, as far as the window lets them
  std::vector<OpPtr> recording_;  // puts whose record is on its way; of those that were given up, too
  std::deque<Drop> drops_;        // that the server has not done; the first is being done
  std::list<Unwanted> garbage_;
  std::vector<Outcome> outcomes_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t reading_bytes_ = 0, writing_bytes_ = 0;  // of what was started: not there yet
  std::uint64_t next_deadline_ns_ = UINT64_MAX;          // none is earlier
  std::uint64_t next_scan_ns_ = 0, next_unwanted_ns_ = UINT64_MAX;
  std::string part_;            // which of several servers are not well
  std::string refused_chunks_;  // which chunks are refused, and why
  std::uint64_t refused_line_ns_ = 0, taken_line_ns_ = 0;
  tiers::TierCounters counters_;
};

}  // namespace larder::remote
