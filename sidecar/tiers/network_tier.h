// NetworkTier: a tier over the network: a TierFront, and a thread that runs the tier's engine.
//
// Commands go in and messages come out under the mutex of the front, which is never held during
// I/O. The thread sees nothing but the engine. The engine has: start, wake (thread-safe), accept,
// turn, next_turn_ns, take_outcomes, idle, abandon, view.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sidecar/tiers/tier_front.h"

namespace larder::tiers {

template <class Engine>
class NetworkTier : public Tier {
 public:
  ~NetworkTier() override {
    NetworkTier::close(kDestroyGraceMs);
    if (thread_.joinable()) thread_.join();
  }

  // Starts the thread. Once, before any other call.
  Status start() {
    if (Status status = front_.open(); !status.ok()) return status;
    if (Status status = engine_.start(); !status.ok()) return status;
    front_.set_wake([this] { engine_.wake(); });
    front_.publish(outcomes_, engine_.view());  // the state before the first turn
    thread_ = std::thread([this] { run(); });
    return {};
  }

  using Tier::probe;
  Status put(Ticket ticket, const ChunkKey& key, const ChunkFacts& facts,
             std::span<const std::byte> slot, std::uint64_t deadline_ns) override {
    if (!plausible(facts) || slot.size() != facts.slot_bytes() || !aligned(slot))
      return front_.refuse(malformed_slot());
    Command command = operation(Operation::kPut, ticket, key, deadline_ns);
    command.facts = facts;
    command.slot = {const_cast<std::byte*>(slot.data()),
                    slot.size()};  // only read: Command has one type for both directions
    return push(std::move(command));
  }
  Status get(Ticket ticket, const ChunkKey& key, std::span<std::byte> slot,
             std::uint64_t deadline_ns) override {
    if (slot.empty() || !aligned(slot)) return front_.refuse(malformed_slot());
    Command command = operation(Operation::kGet, ticket, key, deadline_ns);
    command.slot = slot;
    return push(std::move(command));
  }
  Status probe(Ticket ticket, std::span<const ChunkKey> keys, std::uint64_t deadline_ns) override {
    if (Status status = check_probe(keys.size()); !status.ok())
      return front_.refuse(std::move(status));
    Command command = operation(Operation::kProbe, ticket, {}, deadline_ns);
    command.keys.assign(keys.begin(), keys.end());
    return push(std::move(command));
  }
  Status drop_namespace(Ticket ticket, const protocol::NamespaceId& id,
                        std::uint64_t deadline_ns) override {
    return push(operation(Operation::kDrop, ticket, {id, {}, 0, 0}, deadline_ns));
  }
  Status clear(Ticket ticket, std::uint64_t deadline_ns) override {
    return push(operation(Operation::kClear, ticket, {}, deadline_ns));
  }
  Status flush(Ticket ticket, std::uint64_t deadline_ns) override {
    return push(operation(Operation::kFlush, ticket, {}, deadline_ns));
  }

  Status takes(std::uint64_t slot_bytes) const override {
    return slot_bytes <= bounds_.bytes ? Status() : words_.too_large(slot_bytes, bounds_.bytes);
  }
  void forget(const ChunkKey& key, std::uint64_t generation) override {
    front_.forget(key, generation);
  }
  Status evict(const ChunkKey& key) override { return front_.evict(key); }

  int message_fd() const override { return front_.message_fd(); }
  void take_messages(std::vector<Message>& out) override { front_.take_messages(out); }
  TierState state() const override { return front_.state(); }
  TierCounters counters() const override { return front_.counters(); }

  bool close(std::uint64_t grace_ms) override {
    if (!thread_.joinable()) return true;
    front_.close(grace_ms);
    return front_.wait_ended(std::nullopt);  // the thread ends by that time
  }

 protected:
  // The engine is made of `parts`, which outlive this object, as do clock and thread_name.
  template <class... Parts>
  NetworkTier(const base::Clock& clock, const char* thread_name, const TierFront::Bounds& bounds,
              const TierFront::Words& words, Parts&... parts)
      : clock_(clock),
        thread_name_(thread_name),
        bounds_(bounds),
        words_(words),
        engine_(parts...),
        front_(clock, bounds, words) {}

  // From the return on, no probe finds a chunk of this accepted drop or clear.
  virtual void hide(const Command&) {}

  const base::Clock& clock() const { return clock_; }
  bool closed() const { return front_.closed(); }

 private:
  static constexpr std::uint64_t kDestroyGraceMs = 500;

  static Command operation(Operation operation, Ticket ticket, const ChunkKey& key,
                           std::uint64_t deadline_ns) {
    return {Command::Kind::kOperation, operation, ticket, key, {}, {}, deadline_ns};
  }
  // The caller need not wait for the thread: hide() comes before the thread sees the command.
  Status push(Command pushed) {
    return front_.push(std::move(pushed), [this](const Command& command) {
      if (command.operation == Operation::kDrop || command.operation == Operation::kClear)
        hide(command);
    });
  }

  void run() {
    ::prctl(PR_SET_NAME, thread_name_);
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
      engine_.abandon({Code::kUnavailable, std::string(words_.closed)});
    }
    engine_.take_outcomes(outcomes_);
    TierFront::View view = engine_.view();
    view.evictions += commands.size();
    front_.publish(outcomes_, std::move(view));
    return late || (taken.closed && commands.empty() && engine_.idle());
  }

  const base::Clock& clock_;
  const char* const thread_name_;
  const TierFront::Bounds bounds_;
  const TierFront::Words words_;
  Engine engine_;  // used by the thread, except for wake()
  TierFront front_;
  std::vector<Outcome> outcomes_;
  std::thread thread_;
};

}  // namespace larder::tiers
