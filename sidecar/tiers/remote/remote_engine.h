// RemoteEngine: the remote tier without its thread: commands in, messages out, one turn at a time. Owned by one thread.
//
// remote_engine.cc has what all operations share, chunk_ways.cc the way of a put, a get and a look, remote_care.cc what error
// replies mean, drops, forgetting and flushes.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/error_reply.h"
#include "sidecar/tiers/remote/health.h"
#include "sidecar/tiers/remote/known_chunks.h"
#include "sidecar/tiers/remote/links.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/tier.h"

namespace larder::remote {

struct Command {
  enum class Kind : std::uint8_t { kOperation, kForget };
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

  // All of them outlive it. Drops hide their namespace in `known` before they are accepted, and it is shown when done.
  RemoteEngine(const base::Clock& clock, const RemoteOptions& options, KnownChunks& known);

  Status start() { return links_.open(); }
  void accept(Command command);
  // One round: what came, what that allows to be sent, deadlines. Waits up to `timeout_ns` where there is nothing to do.
  void turn(std::uint64_t timeout_ns);
  void take_outcomes(std::vector<Outcome>& out);
  // At most this long may pass until the next turn.
  std::uint64_t next_turn_ns() const;
  void wake() const { links_.wake(); }  // thread-safe

  // Whether nothing is left to do, as far as the server lets it.
  bool idle() const { return live_.empty() && (forgotten_.empty() || !links_.ready()); }
  // Answers everything that is not answered; no slot is touched afterwards.
  void abandon(const Status& why);

  tiers::TierState state() const;
  tiers::TierCounters counters() const;  // without `refused` and what is in flight
  std::size_t drops() const { return drops_.size(); }

 private:
  struct Op {
    Command command;
    std::uint64_t serial = 0;
    bool started = false;     // something of it is asked
    bool done = false;        // its message is out
    bool cancelled = false;   // dropped meanwhile: whatever the server says, it failed
    bool by_memory = false;   // its parts are asked for by what was known, not by what the server said
    bool missing = false;     // a part is not there
    std::size_t waiting = 0;  // answers to come
    Status failed;            // the first of them that did
    Record record;
    std::optional<Record> former;  // a put: what stood there
    std::vector<bool> there;       // a look
  };
  using OpPtr = std::shared_ptr<Op>;  // shared by the lists and by what runs when an answer comes
  struct Drop {
    OpPtr op;
    std::uint64_t serial = 0;
    std::string cursor = "0";
    bool asked = false;         // an answer is to come
    std::uint64_t step_ns = 0;  // when this step began
  };
  struct Forgotten {
    tiers::ChunkKey key;
    std::uint64_t generation = 0, serial = 0;
    bool asked = false;
  };

  // remote_engine.cc
  void finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts = {});
  void fail_waiting(bool puts, bool gets);
  void miss_deadlines();
  Status ask(Lane lane, const OpPtr& op, std::vector<std::string_view> words, const char* types, Then then);
  bool answered(const OpPtr& op, const Status& lost, const Reply& reply, bool write);

  // chunk_ways.cc
  void pump_reads();
  void pump_writes();
  void start_get(const OpPtr& op);
  void ask_record(const OpPtr& op);
  void record_came(const OpPtr& op, const Status& lost, const Reply& reply);
  void ask_parts(const OpPtr& op);
  void part_came(const OpPtr& op, std::size_t wanted, const Status& lost, const Reply& reply);
  void parts_came(const OpPtr& op);
  void start_look(const OpPtr& op);
  void key_looked_at(const OpPtr& op, std::size_t number, const Status& lost, const Reply& reply);
  void start_put(const OpPtr& op);
  void part_stored(const OpPtr& op, const Status& lost, const Reply& reply);
  void parts_stored(const OpPtr& op);
  void record_stored(const OpPtr& op, const Status& lost, const Reply& reply);
  std::vector<std::string> part_keys(const Record& record) const;
  void unlink(const std::vector<std::string>& keys);
  void know(const Record& record);

  // remote_care.cc
  void greeted(const std::string& run);
  void note_error(const ErrorMeaning& meaning, bool write);
  void write_answered(const Reply& reply);
  void tend_health();
  void probe_reads();
  void probe_writes();
  void drop(const OpPtr& op);
  bool dropping(const protocol::NamespaceId& id) const;
  void tend_drops();
  void scanned(const Status& lost, const Reply& reply);
  void scan_on(const std::string& cursor);
  void drop_failed(const Status& why);
  void drop_done();
  void forget(const tiers::ChunkKey& key, std::uint64_t generation);
  bool was_forgotten(const Record& record) const;
  void tend_forgotten();
  void tend_flushes();
  void say(const std::string& text) const;

  const base::Clock& clock_;
  const RemoteOptions& options_;
  KnownChunks& known_;
  Health health_;
  Links links_;

  std::list<OpPtr> live_;  // accepted, not done
  std::deque<OpPtr> reads_, writes_;
  std::deque<Drop> drops_;  // that the server has not done; the first is being done
  std::deque<Forgotten> forgotten_;
  std::vector<Outcome> outcomes_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t reading_bytes_ = 0, writing_bytes_ = 0;  // started
  std::uint64_t next_deadline_ns_ = UINT64_MAX;          // none is earlier
  std::uint64_t next_scan_ns_ = 0;
  std::string run_;      // of the server that `known_` speaks of
  bool denied_ = false;  // by an error that may be over after a new greeting
  bool probing_ = false;
  tiers::TierCounters counters_;
};

}  // namespace larder::remote
