#include "sidecar/tiers/peer/peer_tier.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "sidecar/base/sizes.h"
#include "sidecar/net/tls_stream.h"
#include "sidecar/tiers/peer/peer_engine.h"
#include "sidecar/tiers/tier_front.h"

namespace larder::peer {
namespace {

using tiers::Command;
using tiers::Operation;
using tiers::Ticket;
using tiers::TierFront;

constexpr std::uint64_t kDestroyGraceMs = 500;
constexpr std::size_t kMostProbes = 64;

Status too_large(std::uint64_t slot_bytes, std::uint64_t most_bytes) {
  return {Code::kOutOfRange, "a chunk of " + base::mib(slot_bytes) +
                                 " is more than is read from peers at once (" +
                                 base::mib(most_bytes) + "): set chunk_tokens smaller"};
}

constexpr TierFront::Words kWords{"the peer tier is closed", "too much on its way from peers",
                                  "too many to evict at once", too_large};

class PeerTier final : public tiers::Tier {
 public:
  PeerTier(const base::Clock& clock, const ClientOptions& options)
      : clock_(clock),
        options_(options),
        offers_(options_.known_chunks),
        engine_(options_, clock, offers_),
        front_(clock,
               {.bytes = options_.accepted_bytes,
                .operations = options_.accepted_operations,
                .probes = kMostProbes},
               kWords) {}
  ~PeerTier() override {
    close(kDestroyGraceMs);
    if (thread_.joinable()) thread_.join();
  }

  Status start() {
    if (Status status = front_.open(); !status.ok()) return status;
    if (Status status = engine_.start(); !status.ok()) return status;
    front_.set_wake([this] { engine_.wake(); });
    thread_ = std::thread([this] { run(); });
    return {};
  }

  Status put(Ticket ticket, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts,
             std::span<const std::byte> slot, std::uint64_t deadline_ns) override {
    if (!tiers::plausible(facts) || slot.size() != facts.slot_bytes() || !tiers::aligned(slot))
      return front_.refuse(tiers::malformed_slot());
    return push({Command::Kind::kOperation, Operation::kPut, ticket, key, facts, {}, deadline_ns});
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
    offers_.erase_namespace(id);  // mutation: peer-drop
    return push(
        {Command::Kind::kOperation, Operation::kDrop, ticket, {id, {}, 0, 0}, {}, {}, deadline_ns});
  }
  Status clear(Ticket ticket, std::uint64_t deadline_ns) override {
    offers_.erase_namespace({});
    return push({Command::Kind::kOperation, Operation::kClear, ticket, {}, {}, {}, deadline_ns});
  }
  Status flush(Ticket ticket, std::uint64_t deadline_ns) override {
    return push({Command::Kind::kOperation, Operation::kFlush, ticket, {}, {}, {}, deadline_ns});
  }

  Status takes(std::uint64_t slot_bytes) const override {
    return slot_bytes <= options_.accepted_bytes ? Status()
                                                 : too_large(slot_bytes, options_.accepted_bytes);
  }
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override {
    const std::optional<Offer> offer = offers_.find(key, clock_.now_ns());
    return offer ? std::optional(offer->facts) : std::nullopt;
  }
  std::uint32_t device(const tiers::ChunkKey& key) const override {
    const std::optional<Offer> offer = offers_.find(key, clock_.now_ns());
    return offer ? static_cast<std::uint32_t>(offer->member % tiers::kMaxDevices) : 0;
  }
  // A tier that is only read forgets an offer at once.
  void forget(const tiers::ChunkKey& key, std::uint64_t generation) override {
    offers_.erase(key, generation);
  }
  Status evict(const tiers::ChunkKey& key) override {
    offers_.erase(key);
    return front_.closed() ? Status(Code::kUnavailable, std::string(kWords.closed)) : Status();
  }

  int message_fd() const override { return front_.message_fd(); }
  void take_messages(std::vector<tiers::Message>& out) override { front_.take_messages(out); }
  tiers::TierState state() const override { return front_.state(); }
  tiers::TierCounters counters() const override { return front_.counters(); }

  bool close(std::uint64_t grace_ms) override {
    if (!thread_.joinable()) return true;
    front_.close(grace_ms);
    return front_.wait_ended(std::nullopt);  // the thread ends by that time
  }

 private:
  void run() {
    ::prctl(PR_SET_NAME, "larder-peers");
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
    return front_.closed() ? std::min<std::uint64_t>(wait, 1'000'000) : wait;
  }
  // Exchanges commands and outcomes. True: closed, and all operations are answered.
  bool exchange(std::vector<Command>& commands) {
    TierFront::Taken taken = front_.take();
    commands = std::move(taken.commands);
    const bool late = taken.closed && clock_.now_ns() >= taken.close_by_ns;
    if (late) {
      for (Command& command : commands) engine_.accept(std::move(command));
      commands.clear();
      engine_.abandon({Code::kUnavailable, std::string(kWords.closed)});
    }
    engine_.take_outcomes(outcomes_);
    TierFront::View view;
    view.state = engine_.state();
    view.counters = engine_.counters();
    view.unwanted = commands.size();
    front_.publish(outcomes_, std::move(view));
    return late || (taken.closed && commands.empty() && engine_.idle());
  }
  // The thread forgets once more, because an answer may come in between.
  Status push(Command pushed) {
    return front_.push(std::move(pushed), [](const Command&) {});
  }

  const base::Clock& clock_;
  const ClientOptions options_;
  Offers offers_;
  PeerEngine engine_;  // used by the thread, except for wake()
  TierFront front_;
  std::vector<tiers::Outcome> outcomes_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<tiers::Tier>> open_peer_tier(const base::Clock& clock,
                                                    const ClientOptions& options) {
  if (options.members.empty())
    return Status(Code::kInvalidArgument, "peers.members: host:port,... or dns:NAME:PORT");
  if (options.tls.enabled)
    if (Status status = net::check_tls_files(options.tls); !status.ok()) return status;
  auto tier = std::make_unique<PeerTier>(clock, options);
  if (Status status = tier->start(); !status.ok()) return status;
  return std::unique_ptr<tiers::Tier>(std::move(tier));
}

}  // namespace larder::peer
