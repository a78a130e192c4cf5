#include "sidecar/tiers/remote/chunks/remote_tier.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "sidecar/base/sizes.h"
#include "sidecar/tiers/remote/chunks/remote_engine.h"

namespace larder::remote {
namespace {

using tiers::Message;
using tiers::Operation;
using tiers::Ticket;

constexpr std::uint64_t kDestroyGraceMs = 500;
constexpr std::size_t kMostProbes = 16;        // at once: a probe has up to 1,024 commands
constexpr std::size_t kMostUnwanted = 16'384;  // waiting removals; beyond, an eviction is refused
constexpr std::uint64_t kBlockBytes = protocol::kSlotAlignBytes;

constexpr std::size_t kMostEndpoints = 32;

Status wrong(const std::string& text) {
  return {Code::kInvalidArgument, text};
}

// Checks the endpoints of each mode.
Status check_endpoints(const RemoteOptions& options) {
  const bool sentinel = options.mode == Mode::kSentinel;
  if (!sentinel && !options.sentinel_master.empty()) return wrong("backend.sentinel_master: the mode is not sentinel");
  if (!sentinel && (!options.sentinel_user.empty() || !options.sentinel_password_file.empty()))
    return wrong("backend.sentinel_password_file: the mode is not sentinel");
  if (options.mode == Mode::kStandalone) {
    if (!options.endpoints.empty()) return wrong("backend.endpoints: a standalone server has backend.host or backend.unix_path");
    if (options.host.empty() == options.unix_path.empty())
      return wrong("backend.host: a host or backend.unix_path, one of the two");
    return {};
  }
  if (!options.host.empty() || !options.unix_path.empty())
    return wrong("backend.host: it is backend.endpoints that names Sentinels, or nodes of a Cluster");
  if (options.endpoints.empty() || options.endpoints.size() > kMostEndpoints) return wrong("backend.endpoints: 1 to 32 of them");
  for (const Endpoint& endpoint : options.endpoints)
    if (endpoint.host.empty() || endpoint.port == 0 || !endpoint.unix_path.empty())
      return wrong("backend.endpoints: each a host and a port");
  if (sentinel && options.sentinel_master.empty()) return wrong("backend.sentinel_master: the name of the master is missing");
  if (!options.sentinel_user.empty() && options.sentinel_password_file.empty())
    return wrong("backend.sentinel_password_file: a user needs one");
  if (options.mode == Mode::kCluster && options.database != 0) return wrong("backend.database: a Cluster has none but 0");
  return {};
}

Status check_options(const RemoteOptions& options) {
  if (Status status = check_endpoints(options); !status.ok()) return status;
  if (options.unix_path.empty() && options.port == 0) return wrong("backend.port: 0 is none");
  if (!options.unix_path.empty()) {
    if (const Result<Address> address = unix_address(options.unix_path); !address.ok()) return address.status();
    if (options.tls.enabled && options.tls.server_name.empty())
      return wrong("backend.server_name: over a Unix socket it must say whom the certificate names");
  }
  if (!valid_prefix(options.prefix)) return wrong("backend.prefix: 1 to 127 letters, digits, \"_\", \".\" and \"-\"");
  if (options.connections < 1 || options.connections > Links::kMost) return wrong("backend.connections: 1 to 4");
  if (options.tls.cert_file.empty() != options.tls.key_file.empty())
    return wrong("backend.cert_file: with backend.key_file, or neither");
  if (!options.user.empty() && options.password_file.empty()) return wrong("backend.password_file: a user needs one");
  return {};
}

class RemoteTier final : public tiers::Tier {
 public:
  RemoteTier(const base::Clock& clock, const RemoteOptions& options)
      : clock_(clock),
        options_(options),
        known_(options.known_chunks, options_.residents.get()),
        engine_(clock, options_, known_) {}
  ~RemoteTier() override {
    close(kDestroyGraceMs);
    if (thread_.joinable()) thread_.join();
  }

  Status start() {
    message_fd_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!message_fd_.valid()) return Status::from_errno(errno, "eventfd");
    if (Status status = engine_.start(); !status.ok()) return status;
    thread_ = std::thread([this] { run(); });
    return {};
  }

  Status put(Ticket ticket, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts, std::span<const std::byte> slot,
             std::uint64_t deadline_ns) override {
    if (!tiers::plausible(facts) || slot.size() != facts.slot_bytes() || !aligned(slot)) return malformed();
    Command command{Command::Kind::kOperation, Operation::kPut, ticket, key, facts, {}, deadline_ns};
    command.slot = {const_cast<std::byte*>(slot.data()), slot.size()};  // only read: Command has one type for both directions
    return push(std::move(command));
  }
  Status get(Ticket ticket, const tiers::ChunkKey& key, std::span<std::byte> slot, std::uint64_t deadline_ns) override {
    if (slot.empty() || !aligned(slot)) return malformed();
    return push({Command::Kind::kOperation, Operation::kGet, ticket, key, {}, slot, deadline_ns});
  }
  Status probe(Ticket ticket, std::span<const tiers::ChunkKey> keys, std::uint64_t deadline_ns) override {
    Command command{Command::Kind::kOperation, Operation::kProbe, ticket, {}, {}, {}, deadline_ns};
    if (keys.size() <= tiers::kMaxProbeKeys) command.keys.assign(keys.begin(), keys.end());
    if (keys.empty() || command.keys.empty()) return refuse_probe(keys.empty());
    return push(std::move(command));
  }
  Status drop_namespace(Ticket ticket, const protocol::NamespaceId& id, std::uint64_t deadline_ns) override {
    return push({Command::Kind::kOperation, Operation::kDrop, ticket, {id, {}, 0, 0}, {}, {}, deadline_ns});
  }
  Status clear(Ticket ticket, std::uint64_t deadline_ns) override {
    return push({Command::Kind::kOperation, Operation::kClear, ticket, {}, {}, {}, deadline_ns});
  }
  Status flush(Ticket ticket, std::uint64_t deadline_ns) override {
    return push({Command::Kind::kOperation, Operation::kFlush, ticket, {}, {}, {}, deadline_ns});
  }

  Status takes(std::uint64_t slot_bytes) const override {
    if (slot_bytes <= options_.accepted_bytes) return {};
    return {Code::kOutOfRange, "a chunk of " + base::mib(slot_bytes) + " is more than a backend is sent at once (" +
                                   base::mib(options_.accepted_bytes) + "): set chunk_tokens smaller"};
  }
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override {
    const std::optional<Record> record = known_.find(key, clock_.now_ns());
    return record ? std::optional(record->facts) : std::nullopt;
  }
  void forget(const tiers::ChunkKey& key, std::uint64_t generation) override {
    Command command;
    command.kind = Command::Kind::kForget;
    command.key = key;
    command.facts.generation = generation;
    const std::lock_guard lock(mutex_);
    // Bounded: a chunk beyond the bound is found bad once more.
    if (closed_ || commands_.size() >= 2 * std::size_t{options_.accepted_operations}) return;
    commands_.push_back(std::move(command));
    engine_.wake();
  }

  Status evict(const tiers::ChunkKey& key) override {
    Command command;
    command.kind = Command::Kind::kEvict;
    command.key = key;
    const std::lock_guard lock(mutex_);
    if (closed_) return {Code::kUnavailable, "the backend is closed"};
    if (held_unwanted_ + commands_.size() >= kMostUnwanted)
      return {Code::kResourceExhausted, "too many to evict from the server at once"};
    commands_.push_back(std::move(command));
    engine_.wake();
    // The chunk is hidden here in any case, and removed once the server is back, unless larderd
    // ends before.
    return state_.takes_puts ? Status() : Status(Code::kUnavailable, state_.reason);
  }

  int message_fd() const override { return message_fd_.get(); }
  void take_messages(std::vector<Message>& out) override {
    const std::lock_guard lock(mutex_);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(message_fd_.get(), &count, sizeof(count));
    out.insert(out.end(), std::make_move_iterator(messages_.begin()), std::make_move_iterator(messages_.end()));
    messages_.clear();
  }

  tiers::TierState state() const override {
    const std::lock_guard lock(mutex_);
    if (closed_) return {false, false, "closed", state_.mode};
    return state_;
  }
  tiers::TierCounters counters() const override {
    const std::lock_guard lock(mutex_);
    tiers::TierCounters counters = counters_;
    counters.refused += refused_;
    counters.in_flight_bytes = held_bytes_;
    return counters;
  }

  bool close(std::uint64_t grace_ms) override {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) return true;
    closed_ = true;
    close_by_ns_ = clock_.now_ns() + grace_ms * 1'000'000;
    engine_.wake();
    ended_changed_.wait(lock, [this] { return ended_; });  // the thread ends by that time
    return true;
  }

 private:
  void run() {
    ::prctl(PR_SET_NAME, "larder-remote");
    sigset_t broken_pipe;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);  // OpenSSL writes to closed sockets without MSG_NOSIGNAL
    std::vector<Command> commands;
    while (!exchange(commands)) {
      const bool busy = !commands.empty();
      for (Command& command : commands) engine_.accept(std::move(command));
      engine_.turn(busy ? 0 : wait_ns());
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    ended_changed_.notify_all();
  }
  std::uint64_t wait_ns() const {
    const std::uint64_t wait = engine_.next_turn_ns();
    const std::lock_guard lock(mutex_);
    return closed_ ? std::min<std::uint64_t>(wait, 1'000'000) : wait;
  }
  // Exchanges commands and outcomes. True: closed, and all operations are answered.
  bool exchange(std::vector<Command>& commands) {
    bool late = false;
    {
      const std::lock_guard lock(mutex_);
      late = closed_ && clock_.now_ns() >= close_by_ns_;
      commands = std::exchange(commands_, {});
    }
    if (late) {
      for (Command& command : commands) engine_.accept(std::move(command));
      commands.clear();
      engine_.abandon({Code::kUnavailable, "the backend is closed"});
    }
    std::vector<Outcome> outcomes;
    engine_.take_outcomes(outcomes);
    const tiers::TierCounters counters = engine_.counters();
    const std::lock_guard lock(mutex_);
    for (Outcome& outcome : outcomes) {
      held_bytes_ -= outcome.freed_bytes;
      held_operations_ -= outcome.freed ? 1 : 0;
      held_probes_ -= outcome.message.operation == Operation::kProbe ? 1 : 0;
      messages_.push_back(std::move(outcome.message));
    }
    if (!outcomes.empty()) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(message_fd_.get(), &one, sizeof(one));
    }
    state_ = engine_.state();
    counters_ = counters;
    held_drops_ = engine_.drops();
    held_unwanted_ = engine_.unwanted() + commands.size();
    return late || (closed_ && commands.empty() && commands_.empty() && engine_.idle());
  }

  static bool aligned(std::span<const std::byte> slot) {
    return reinterpret_cast<std::uintptr_t>(slot.data()) % kBlockBytes == 0 && slot.size() % kBlockBytes == 0;
  }
  Status malformed() {
    const std::lock_guard lock(mutex_);
    ++refused_;
    return {Code::kInvalidArgument, "a slot that is not aligned, or of another size than its facts tell"};
  }
  Status refuse_probe(bool empty) {
    const std::lock_guard lock(mutex_);
    ++refused_;
    return empty ? Status(Code::kInvalidArgument, "a look at no key")
                 : Status(Code::kOutOfRange, "a look at more keys than one may ask for");
  }

  Status push(Command command) {
    const std::lock_guard lock(mutex_);
    const Status status = admissible(command);
    if (!status.ok()) {
      ++refused_;
      return status;
    }
    // Hidden from here on, so that the caller need not wait for the thread.
    if (command.operation == Operation::kDrop) known_.hide(command.key.namespace_id);
    if (command.operation == Operation::kClear) known_.hide_all();
    held_bytes_ += command.slot.size();
    ++held_operations_;
    held_probes_ += command.operation == Operation::kProbe ? 1 : 0;
    commands_.push_back(std::move(command));
    engine_.wake();
    return {};
  }
  // REQUIRES: the mutex.
  Status admissible(const Command& command) const {
    if (closed_) return {Code::kUnavailable, "the backend is closed"};
    const Operation operation = command.operation;
    const bool get = operation == Operation::kGet || operation == Operation::kProbe;
    const bool drop = operation == Operation::kDrop || operation == Operation::kClear;
    if (operation == Operation::kPut ? !state_.takes_puts : get && !state_.takes_gets) return {Code::kUnavailable, state_.reason};
    if (Status large = takes(command.slot.size()); !large.ok()) return large;
    if (held_operations_ >= options_.accepted_operations || held_bytes_ + command.slot.size() > options_.accepted_bytes ||
        (operation == Operation::kProbe && held_probes_ >= kMostProbes) || (drop && held_drops_ >= RemoteEngine::kMostDrops))
      return {Code::kResourceExhausted, "too much on its way to and from the server"};
    return {};
  }

  const base::Clock& clock_;
  const RemoteOptions options_;
  KnownChunks known_;
  RemoteEngine engine_;  // used by the thread, except for wake()
  Fd message_fd_;

  mutable std::mutex mutex_;
  std::condition_variable ended_changed_;
  std::vector<Command> commands_;
  std::vector<Message> messages_;
  tiers::TierState state_;
  tiers::TierCounters counters_;
  std::uint64_t refused_ = 0;
  std::uint64_t held_bytes_ = 0;  // of accepted operations without an answer
  std::uint32_t held_operations_ = 0;
  std::size_t held_probes_ = 0, held_drops_ = 0, held_unwanted_ = 0;
  bool closed_ = false, ended_ = false;
  std::uint64_t close_by_ns_ = 0;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<tiers::Tier>> open_remote_tier(const base::Clock& clock, const RemoteOptions& options) {
  if (Status status = check_options(options); !status.ok()) return status;
  auto tier = std::make_unique<RemoteTier>(clock, options);
  if (Status status = tier->start(); !status.ok()) return status;
  return std::unique_ptr<tiers::Tier>(std::move(tier));
}

}  // namespace larder::remote
