#include "sidecar/tiers/remote/chunks/remote_tier.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "sidecar/base/sizes.h"
#include "sidecar/tiers/remote/chunks/remote_engine.h"
#include "sidecar/tiers/tier_front.h"

namespace larder::remote {
namespace {

using tiers::Message;
using tiers::Operation;
using tiers::Ticket;
using tiers::TierFront;

// The header promises an end within a second.
constexpr std::uint64_t kDestroyGraceMs = 500;
constexpr std::size_t kMostProbes = 16;  // at once: a probe has up to 1,024 commands
constexpr std::size_t kMostEndpoints = 32;

Status too_large(std::uint64_t slot_bytes, std::uint64_t most_bytes) {
  return {Code::kOutOfRange, "a chunk of " + base::mib(slot_bytes) +
                                 " is more than a backend is sent at once (" +
                                 base::mib(most_bytes) + "): set chunk_tokens smaller"};
}

constexpr TierFront::Words kWords{"the backend is closed",
                                  "too many operations on their way to and from the server",
                                  "too many to evict from the server at once", too_large};

Status wrong(const std::string& text) {
  return {Code::kInvalidArgument, text};
}

// Checks the endpoints of each mode.
// Every error names the field to change: the options may come from a file, a Secret or a URL.
Status check_endpoints(const RemoteOptions& options) {
  const bool sentinel = options.mode == Mode::kSentinel;
  if (!sentinel && !options.sentinel_master.empty())
    return wrong("backend.sentinel_master: the mode is not sentinel");
  if (!sentinel && (!options.sentinel_user.empty() || !options.sentinel_password_file.empty()))
    return wrong("backend.sentinel_password_file: the mode is not sentinel");
  if (options.mode == Mode::kStandalone) {
    if (!options.endpoints.empty())
      return wrong("backend.endpoints: a standalone server has backend.host or backend.unix_path");
    // Both or neither.
    if (options.host.empty() == options.unix_path.empty())
      return wrong("backend.host: a host or backend.unix_path, one of the two");
    return {};
  }
  if (!options.host.empty() || !options.unix_path.empty())
    return wrong(
        "backend.host: it is backend.endpoints that names Sentinels, or nodes of a Cluster");
  if (options.endpoints.empty() || options.endpoints.size() > kMostEndpoints)
    return wrong("backend.endpoints: 1 to 32 of them");
  for (const Endpoint& endpoint : options.endpoints)
    if (endpoint.host.empty() || endpoint.port == 0 || !endpoint.unix_path.empty())
      return wrong("backend.endpoints: each a host and a port");
  if (sentinel && options.sentinel_master.empty())
    return wrong("backend.sentinel_master: the name of the master is missing");
  if (!options.sentinel_user.empty() && options.sentinel_password_file.empty())
    return wrong("backend.sentinel_password_file: a user needs one");
  if (options.mode == Mode::kCluster && options.database != 0)
    return wrong("backend.database: a Cluster has none but 0");
  return {};
}

Status check_options(const RemoteOptions& options) {
  if (Status status = check_endpoints(options); !status.ok()) return status;
  if (options.unix_path.empty() && options.port == 0) return wrong("backend.port: 0 is none");
  if (!options.unix_path.empty()) {
    // A path of more than 107 bytes does not fit into sockaddr_un. connect() would fail much
    // later.
    if (const Result<Address> address = unix_address(options.unix_path); !address.ok())
      return wrong("backend." + address.status().text());
    if (options.tls.enabled && options.tls.server_name.empty())
      return wrong(
          "backend.server_name: over a Unix socket it must say whom the certificate names");
  }
  if (!valid_prefix(options.prefix))
    return wrong("backend.prefix: 1 to 127 letters, digits, \"_\", \".\" and \"-\"");
  if (options.connections < 1 || options.connections > Links::kMost)
    return wrong("backend.connections: 1 to 4");
  if (options.tls.cert_file.empty() != options.tls.key_file.empty())
    return wrong("backend.cert_file: with backend.key_file, or neither");
  if (!options.user.empty() && options.password_file.empty())
    // Without a password no AUTH is sent, so the user would be ignored silently.
    return wrong("backend.password_file: a user needs one");
  return {};
}

class RemoteTier final : public tiers::Tier {
 public:
  RemoteTier(const base::Clock& clock, const RemoteOptions& options)
      : clock_(clock),
        options_(options),
        known_(options.known_chunks, options_.residents.get()),
        // The copy `options_` and not `options`: the engine and its parts keep references.
        engine_(clock, options_, known_),
        front_(clock,
               {.bytes = options_.accepted_bytes,
                .operations = options_.accepted_operations,
                .probes = kMostProbes,
                .drops = RemoteEngine::kMostDrops},
               kWords) {}
  ~RemoteTier() override {
    close(kDestroyGraceMs);
    if (thread_.joinable()) thread_.join();
  }

  Status start() {
    if (Status status = front_.open(); !status.ok()) return status;
    // An unreachable server is no error here: larderd starts, and uses the server once it answers.
    if (Status status = engine_.start(); !status.ok()) return status;
    front_.set_wake([this] { engine_.wake(); });
    thread_ = std::thread([this] { run(); });
    return {};
  }

  Status put(Ticket ticket, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts,
             std::span<const std::byte> slot, std::uint64_t deadline_ns) override {
    if (!tiers::plausible(facts) || slot.size() != facts.slot_bytes() || !tiers::aligned(slot))
      return front_.refuse(tiers::malformed_slot());
    Command command{
        Command::Kind::kOperation, Operation::kPut, ticket, key, facts, {}, deadline_ns};
    command.slot = {const_cast<std::byte*>(slot.data()),
                    slot.size()};  // only read: Command has one type for both directions
    return push(std::move(command));
  }
  Status get(Ticket ticket, const tiers::ChunkKey& key, std::span<std::byte> slot,
             std::uint64_t deadline_ns) override {
    if (slot.empty() || !tiers::aligned(slot)) return front_.refuse(tiers::malformed_slot());
    return push({Command::Kind::kOperation, Operation::kGet, ticket, key, {}, slot, deadline_ns});
  }
  Status probe(Ticket ticket, std::span<const tiers::ChunkKey> keys,
               std::uint64_t deadline_ns) override {
    if (Status status = tiers::check_probe(keys.size()); !status.ok())
      return front_.refuse(std::move(status));
    Command command{Command::Kind::kOperation, Operation::kProbe, ticket, {}, {}, {}, deadline_ns};
    command.keys.assign(keys.begin(), keys.end());
    return push(std::move(command));
  }
  Status drop_namespace(Ticket ticket, const protocol::NamespaceId& id,
                        std::uint64_t deadline_ns) override {
    return push(
        {Command::Kind::kOperation, Operation::kDrop, ticket, {id, {}, 0, 0}, {}, {}, deadline_ns});
  }
  Status clear(Ticket ticket, std::uint64_t deadline_ns) override {
    return push({Command::Kind::kOperation, Operation::kClear, ticket, {}, {}, {}, deadline_ns});
  }
  Status flush(Ticket ticket, std::uint64_t deadline_ns) override {
    return push({Command::Kind::kOperation, Operation::kFlush, ticket, {}, {}, {}, deadline_ns});
  }

  // The server's own limit shows only at a put, see WriteGate.
  Status takes(std::uint64_t slot_bytes) const override {
    return slot_bytes <= options_.accepted_bytes ? Status()
                                                 : too_large(slot_bytes, options_.accepted_bytes);
  }
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override {
    // From memory alone: a lookup must not wait for the network. A chunk of another larderd is
    // found by the asynchronous probe().
    const std::optional<Record> record = known_.find(key, clock_.now_ns());
    return record ? std::optional(record->facts) : std::nullopt;
  }
  void forget(const tiers::ChunkKey& key, std::uint64_t generation) override {
    front_.forget(key, generation);
  }
  Status evict(const tiers::ChunkKey& key) override { return front_.evict(key); }

  int message_fd() const override { return front_.message_fd(); }
  void take_messages(std::vector<Message>& out) override { front_.take_messages(out); }
  tiers::TierState state() const override { return front_.state(); }
  tiers::TierCounters counters() const override { return front_.counters(); }

  bool close(std::uint64_t grace_ms) override {
    if (!thread_.joinable()) return true;
    front_.close(grace_ms);
    return front_.wait_ended(std::nullopt);  // the thread ends by that time
  }

 private:
  void run() {
    ::prctl(PR_SET_NAME, "larder-remote");
    sigset_t broken_pipe;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe,
                      nullptr);  // OpenSSL writes to closed sockets without MSG_NOSIGNAL
    std::vector<Command> commands;
    while (!exchange(commands)) {
      const bool busy = !commands.empty();
      for (Command& command : commands) engine_.accept(std::move(command));
      engine_.turn(busy ? 0 : wait_ns());
    }
    front_.end();
  }
  std::uint64_t wait_ns() const {
    const std::uint64_t wait = engine_.next_turn_ns();
    // While closing, the thread must also notice the end of the grace, and idle() without an
    // event.
    return front_.closed() ? std::min<std::uint64_t>(wait, 1'000'000) : wait;
  }
  // Exchanges commands and outcomes. True: closed, and all operations are answered.
  bool exchange(std::vector<Command>& commands) {
    TierFront::Taken taken = front_.take();
    commands = std::move(taken.commands);
    const bool late = taken.closed && clock_.now_ns() >= taken.close_by_ns;
    // The commands just taken have callers too: abandon() answers accepted commands only.
    if (late) {
      for (Command& command : commands) engine_.accept(std::move(command));
      commands.clear();
      engine_.abandon({Code::kUnavailable, std::string(kWords.closed)});
    }
    engine_.take_outcomes(outcomes_);
    TierFront::View view;
    view.state = engine_.state();
    view.counters = engine_.counters();
    view.drops = engine_.drops();
    // Commands on their way to the engine count, so a burst cannot exceed the bound.
    view.unwanted = engine_.unwanted() + commands.size();
    front_.publish(outcomes_, std::move(view));
    return late || (taken.closed && commands.empty() && engine_.idle());
  }

  Status push(Command pushed) {
    // Hidden from here on, so that the caller need not wait for the thread.
    return front_.push(std::move(pushed), [this](const Command& command) {
      if (command.operation == Operation::kDrop) known_.hide(command.key.namespace_id);
      if (command.operation == Operation::kClear) known_.hide_all();
    });
  }

  const base::Clock& clock_;
  const RemoteOptions options_;
  KnownChunks known_;
  RemoteEngine engine_;  // used by the thread, except for wake()
  TierFront front_;
  std::vector<Outcome> outcomes_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<tiers::Tier>> open_remote_tier(const base::Clock& clock,
                                                      const RemoteOptions& options) {
  if (Status status = check_options(options); !status.ok()) return status;
  auto tier = std::make_unique<RemoteTier>(clock, options);
  if (Status status = tier->start(); !status.ok()) return status;
  return std::unique_ptr<tiers::Tier>(std::move(tier));
}

}  // namespace larder::remote
