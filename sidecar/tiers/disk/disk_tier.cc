#include "sidecar/tiers/disk/disk_tier.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "sidecar/base/sizes.h"
#include "sidecar/tiers/disk/disk_engine.h"

namespace larder::disk {
namespace {

using tiers::Message;
using tiers::Operation;
using tiers::Ticket;

constexpr std::size_t kMostUnwanted = 16'384;   // waiting commands; beyond, an eviction is refused
constexpr std::uint64_t kClosedGraceMs = 1000;  // of the destructor after close()
constexpr std::uint64_t kDestroyGraceMs = 10'000;
constexpr std::uint64_t kSteppedTurnNs = 1'000'000;

// The state that the tier and its thread share. The thread has a shared_ptr of its own: a device
// that never answers may outlive the tier.
struct Core {
  Core(Env& the_env, const base::Clock& the_clock, const DiskOptions& the_options)
      : env(the_env), clock(the_clock), options(the_options), catalog(0, options.residents.get()) {}

  Env& env;
  const base::Clock& clock;
  const DiskOptions options;
  Catalog catalog;
  Fd message_fd;

  std::mutex mutex;
  std::condition_variable changed;  // notified at the start and the end
  DiskEngine* engine = nullptr;     // for wake(), while the thread runs
  std::vector<Command> commands;
  std::vector<Message> messages;
  tiers::TierState state;
  tiers::TierCounters counters;
  std::uint64_t refused = 0;
  std::uint64_t most_slot_bytes = 0;  // 0: unknown
  std::uint64_t held_bytes = 0;       // of accepted operations whose slot is not free yet
  std::uint32_t held_operations = 0;
  bool started = false, closed = false, answered = false, ended = false;
  std::uint64_t close_by_ns = 0;
  Status start_status;
};

// Exchanges commands and outcomes. Returns whether the thread may end.
bool exchange(Core& core, DiskEngine& engine, std::vector<Command>& commands) {
  std::vector<Outcome> outcomes;
  engine.take_outcomes(outcomes);
  const tiers::TierCounters counters = engine.counters();
  const std::lock_guard lock(core.mutex);
  for (Outcome& outcome : outcomes) {
    core.held_bytes -= outcome.freed_bytes;
    core.held_operations -= outcome.freed ? 1 : 0;
    core.messages.push_back(std::move(outcome.message));
  }
  if (!outcomes.empty()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(core.message_fd.get(), &one, sizeof(one));
  }
  core.state = engine.state();
  core.counters = counters;
  core.most_slot_bytes = engine.most_slot_bytes();
  commands = std::exchange(core.commands, {});
  core.answered = core.closed && commands.empty() && core.held_operations == 0 && engine.closed();
  return core.answered;
}

// The life of the tier, turn by turn, in its thread or in a test. Owned by one thread.
class Life {
 public:
  explicit Life(std::shared_ptr<Core> core)
      : core_(std::move(core)), engine_(std::make_unique<DiskEngine>(core_->env, core_->clock, core_->options, core_->catalog)) {}

  Status start() {
    const Status started = engine_->start();
    {
      const std::lock_guard lock(core_->mutex);
      core_->start_status = started;
      core_->started = true;
      core_->engine = started.ok() ? engine_.get() : nullptr;
      core_->counters = engine_->counters();
      core_->state = engine_->state();
      core_->most_slot_bytes = engine_->most_slot_bytes();
      core_->changed.notify_all();
    }
    if (started.ok()) return started;
    engine_.reset();  // waits for a hanging device
    end();
    return started;
  }

  // Runs one turn, and waits up to `most_ns` for the device. False: ended.
  bool turn(std::uint64_t most_ns) {
    if (exchange(*core_, *engine_, commands_)) return end();
    for (const Command& command : commands_) engine_->accept(command);
    std::uint64_t close_by_ns = 0;
    {
      const std::lock_guard lock(core_->mutex);
      if (core_->closed) close_by_ns = core_->close_by_ns;
    }
    if (close_by_ns != 0) engine_->begin_close();
    if (close_by_ns != 0 && core_->clock.now_ns() >= close_by_ns) {
      if (!abandoned_) engine_->abandon({Code::kUnavailable, "the disk tier is closed"});
      if (std::exchange(abandoned_, true) && engine_->device_quiet()) return end();
    }
    engine_->turn(commands_.empty() ? std::min(most_ns, engine_->next_turn_ns()) : 0);
    return true;
  }
  // Makes the outcomes of the last turn available before the next turn. REQUIRES: no command came
  // since.
  void hand_over() { exchange(*core_, *engine_, commands_); }

 private:
  bool end() {
    const std::lock_guard lock(core_->mutex);
    core_->engine = nullptr;
    core_->ended = true;
    core_->changed.notify_all();
    return false;
  }

  std::shared_ptr<Core> core_;
  std::unique_ptr<DiskEngine> engine_;
  std::vector<Command> commands_;
  bool abandoned_ = false;
};

void run(const std::shared_ptr<Core>& core) {
  ::prctl(PR_SET_NAME, "larder-disk");
  Life life(core);
  if (!life.start().ok()) return;
  while (life.turn(UINT64_MAX)) {
  }
}

class DiskTier final : public SteppedTier {
 public:
  explicit DiskTier(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~DiskTier() override { finish_thread(); }

  // Without a thread all work happens in turn().
  Status start(bool threaded) {
    core_->message_fd = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!core_->message_fd.valid()) return Status::from_errno(errno, "eventfd");
    if (!threaded) return life_.emplace(core_).start();
    thread_ = std::thread([core = core_] { run(core); });
    std::unique_lock lock(core_->mutex);
    core_->changed.wait(lock, [this] { return core_->started; });  // bounded by the start deadline of the device
    return core_->start_status;
  }

  Status put(Ticket ticket, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts, std::span<const std::byte> slot,
             std::uint64_t deadline_ns) override {
    if (!tiers::plausible(facts) || slot.size() != facts.slot_bytes() || !aligned(slot)) return malformed();
    Command command{Command::Kind::kOperation, Operation::kPut, ticket, key, facts, {}, deadline_ns};
    command.slot = {const_cast<std::byte*>(slot.data()), slot.size()};  // only read: IoRequest has one type for both directions
    return push(command);
  }
  Status get(Ticket ticket, const tiers::ChunkKey& key, std::span<std::byte> slot, std::uint64_t deadline_ns) override {
    if (slot.empty() || !aligned(slot)) return malformed();
    return push({Command::Kind::kOperation, Operation::kGet, ticket, key, {}, slot, deadline_ns});
  }
  // No other process writes the file, so the catalog has the complete answer.
  Status probe(Ticket ticket, std::span<const tiers::ChunkKey> keys, std::uint64_t) override {
    Message message{Message::Kind::kDone, Operation::kProbe, false, ticket, {}, {}};
    for (const tiers::ChunkKey& key : keys) message.there.push_back(probe(key).has_value());
    const std::lock_guard lock(core_->mutex);
    if (Status status = lookable(keys.size()); !status.ok()) {
      ++core_->refused;
      return status;
    }
    core_->messages.push_back(std::move(message));
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(core_->message_fd.get(), &one, sizeof(one));
    return {};
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
    const std::lock_guard lock(core_->mutex);
    if (core_->most_slot_bytes == 0 || slot_bytes <= core_->most_slot_bytes) return {};
    return too_large_for_a_region(core_->options, slot_bytes);
  }
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override {
    const std::optional<Located> located = core_->catalog.find(key);
    const TimeToLive ttl{core_->options.ttl_s};
    if (!located) return std::nullopt;
    if (ttl.limit_s == 0 || !ttl.expired(located->record.written_s, core_->env.unix_s())) {
      tiers::ChunkFacts facts = located->record.facts;
      facts.since_s = located->record.written_s;
      return facts;
    }
    ask_to_forget(key, located->record.facts.generation);  // or the residents would list the chunk until its region is reused
    return std::nullopt;
  }
  void forget(const tiers::ChunkKey& key, std::uint64_t generation) override { ask_to_forget(key, generation); }
  Status evict(const tiers::ChunkKey& key) override {
    Command command;
    command.kind = Command::Kind::kEvict;
    command.key = key;
    const std::lock_guard lock(core_->mutex);
    if (core_->closed) return {Code::kUnavailable, "the disk tier is closed"};
    if (core_->commands.size() >= kMostUnwanted) return {Code::kResourceExhausted, "too many to evict from the disk at once"};
    core_->commands.push_back(command);
    wake_locked();
    return core_->state.takes_puts ? Status() : Status(Code::kUnavailable, core_->state.reason);
  }

  int message_fd() const override { return core_->message_fd.get(); }
  void take_messages(std::vector<Message>& out) override {
    const std::lock_guard lock(core_->mutex);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(core_->message_fd.get(), &count, sizeof(count));
    out.insert(out.end(), std::make_move_iterator(core_->messages.begin()), std::make_move_iterator(core_->messages.end()));
    core_->messages.clear();
  }

  tiers::TierState state() const override {
    const std::lock_guard lock(core_->mutex);
    if (core_->closed) return {false, false, "closed"};
    return core_->state;
  }
  tiers::TierCounters counters() const override {
    const std::lock_guard lock(core_->mutex);
    tiers::TierCounters counters = core_->counters;
    counters.refused = core_->refused;
    counters.in_flight_bytes = core_->held_bytes;
    return counters;
  }

  bool close(std::uint64_t grace_ms) override {
    std::unique_lock lock(core_->mutex);
    core_->closed = true;
    core_->close_by_ns = core_->clock.now_ns() + grace_ms * 1'000'000;
    wake_locked();
    // A little longer than the thread needs to notice the deadline and to answer open operations.
    const std::uint64_t at_most_ms = grace_ms + 500;
    if (!life_) return core_->changed.wait_for(lock, std::chrono::milliseconds(at_most_ms), [this] { return core_->ended; });
    const std::uint64_t end_ns = core_->clock.now_ns() + at_most_ms * 1'000'000;
    lock.unlock();
    while (turn(kSteppedTurnNs))
      if (core_->clock.now_ns() >= end_ns) return false;
    return true;
  }
  bool turn(std::uint64_t most_ns) override {
    if (core_->ended || !life_->turn(most_ns)) return false;
    life_->hand_over();
    return true;
  }

 private:
  void ask_to_forget(const tiers::ChunkKey& key, std::uint64_t generation) const {
    Command command;
    command.kind = Command::Kind::kForget;
    command.key = key;
    command.facts.generation = generation;
    const std::lock_guard lock(core_->mutex);
    // Bounded: a chunk beyond the bound is found bad or expired once more.
    if (core_->closed || core_->commands.size() >= 2 * std::size_t{core_->options.accepted_operations}) return;
    core_->commands.push_back(command);
    wake_locked();
  }
  static bool aligned(std::span<const std::byte> slot) {
    return reinterpret_cast<std::uintptr_t>(slot.data()) % kBlockBytes == 0 && slot.size() % kBlockBytes == 0;
  }
  Status malformed() {
    const std::lock_guard lock(core_->mutex);
    ++core_->refused;
    return {Code::kInvalidArgument, "a slot that is not aligned, or of another size than its facts tell"};
  }

  // REQUIRES: the mutex.
  void wake_locked() const {
    if (core_->engine != nullptr) core_->engine->wake();
  }

  Status push(const Command& command) {
    const std::lock_guard lock(core_->mutex);
    const Status status = admissible(command);
    if (!status.ok()) {
      ++core_->refused;
      return status;
    }
    // Hidden from here on, so that the caller need not wait for the thread.
    if (command.operation == Operation::kDrop) core_->catalog.hide(command.key.namespace_id);  // mutation: drop-hides
    if (command.operation == Operation::kClear) core_->catalog.hide_all();
    core_->held_bytes += command.slot.size();
    ++core_->held_operations;
    core_->commands.push_back(command);
    wake_locked();
    return {};
  }
  Status lookable(std::size_t keys) const {
    if (keys == 0) return {Code::kInvalidArgument, "a look at no key"};
    if (keys > tiers::kMaxProbeKeys) return {Code::kOutOfRange, "a look at more keys than one may ask for"};
    if (core_->closed) return {Code::kUnavailable, "the disk tier is closed"};
    if (!core_->state.takes_gets) return {Code::kUnavailable, core_->state.reason};
    if (core_->messages.size() >= 2 * std::size_t{core_->options.accepted_operations})
      return {Code::kResourceExhausted, "too many messages that nobody takes"};
    return {};
  }
  Status admissible(const Command& command) const {
    if (core_->closed) return {Code::kUnavailable, "the disk tier is closed"};
    const bool put = command.operation == Operation::kPut;
    if (put ? !core_->state.takes_puts : command.operation == Operation::kGet && !core_->state.takes_gets)
      return {Code::kUnavailable, core_->state.reason};
    if (command.slot.size() > core_->options.accepted_bytes)
      return {Code::kOutOfRange, "a chunk of " + base::mib(command.slot.size()) + " is more than the disk tier takes at once (" +
                                     base::mib(core_->options.accepted_bytes) + "): set chunk_tokens smaller"};
    if (core_->held_operations >= core_->options.accepted_operations ||
        core_->held_bytes + command.slot.size() > core_->options.accepted_bytes)
      return {Code::kResourceExhausted, "too much on its way to and from the disk"};
    return {};
  }

  void finish_thread() {
    if (!thread_.joinable()) return;
    std::uint64_t grace_ms = kDestroyGraceMs;
    {
      // close() gave a grace before; a failed start needs no grace.
      const std::lock_guard lock(core_->mutex);
      if (core_->closed) grace_ms = kClosedGraceMs;
      if (!core_->start_status.ok()) grace_ms = 0;
    }
    if (close(grace_ms))
      thread_.join();
    else
      thread_.detach();
  }

  std::shared_ptr<Core> core_;
  std::thread thread_;
  std::optional<Life> life_;  // without a thread
};

}  // namespace

Result<std::unique_ptr<tiers::Tier>> open_disk_tier(Env& env, const base::Clock& clock, const DiskOptions& options) {
  auto tier = std::make_unique<DiskTier>(std::make_shared<Core>(env, clock, options));
  if (Status status = tier->start(true); !status.ok()) return status;
  return std::unique_ptr<tiers::Tier>(std::move(tier));
}

Result<std::unique_ptr<SteppedTier>> open_stepped_disk_tier(Env& env, const base::Clock& clock, const DiskOptions& options) {
  auto tier = std::make_unique<DiskTier>(std::make_shared<Core>(env, clock, options));
  if (Status status = tier->start(false); !status.ok()) return status;
  return std::unique_ptr<SteppedTier>(std::move(tier));
}

}  // namespace larder::disk
