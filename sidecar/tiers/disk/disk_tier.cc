#include "sidecar/tiers/disk/disk_tier.h"

#include <sys/prctl.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "sidecar/base/sizes.h"
#include "sidecar/tiers/disk/disk_engine.h"
#include "sidecar/tiers/tier_front.h"

namespace larder::disk {
namespace {

using tiers::Message;
using tiers::Operation;
using tiers::Ticket;
using tiers::TierFront;

constexpr std::uint64_t kClosedGraceMs = 1000;  // of the destructor after close()
constexpr std::uint64_t kDestroyGraceMs = 10'000;
constexpr std::uint64_t kSteppedTurnNs = 1'000'000;

Status too_large(std::uint64_t slot_bytes, std::uint64_t most_bytes) {
  return {Code::kOutOfRange, "a chunk of " + base::mib(slot_bytes) +
                                 " is more than the disk tier takes at once (" +
                                 base::mib(most_bytes) + "): set chunk_tokens smaller"};
}

constexpr TierFront::Words kWords{"the disk tier is closed",
                                  "too many operations on their way to and from the disk",
                                  "too many to evict from the disk at once", too_large};

// The state that the tier and its thread share. The thread has a shared_ptr of its own: a device
// that never answers may outlive the tier.
struct Core {
  Core(Env& the_env, const base::Clock& the_clock, const DiskOptions& the_options)
      : env(the_env),
        clock(the_clock),
        options(the_options),
        catalog(0, options.residents.get()),
        front(the_clock,
              {.bytes = options.accepted_bytes, .operations = options.accepted_operations},
              kWords) {}

  Env& env;
  const base::Clock& clock;
  const DiskOptions options;
  Catalog catalog;
  TierFront front;

  std::mutex start_mutex;
  std::condition_variable start_changed;
  std::optional<Status> start_status;  // empty until the engine has started, or failed to
};

// The life of the tier, turn by turn, in its thread or in a test. Owned by one thread.
class Life {
 public:
  explicit Life(std::shared_ptr<Core> core)
      : core_(std::move(core)),
        engine_(std::make_unique<DiskEngine>(core_->env, core_->clock, core_->options,
                                             core_->catalog)) {}

  Status start() {
    const Status started = engine_->start();
    publish();
    if (started.ok()) core_->front.set_wake([engine = engine_.get()] { engine->wake(); });
    {
      const std::lock_guard lock(core_->start_mutex);
      core_->start_status = started;
      core_->start_changed.notify_all();
    }
    if (started.ok()) return started;
    // The thread hangs here, and not the caller of start(): open_disk_tier() has its error
    // already.
    engine_.reset();  // waits for a hanging device
    core_->front.end();
    return started;
  }

  // Runs one turn, and waits up to `most_ns` for the device. False: ended.
  bool turn(std::uint64_t most_ns) {
    // Outcomes before new commands: the published outcomes free room for the next commands.
    publish();
    const TierFront::Taken taken = core_->front.take();
    if (taken.closed && taken.commands.empty() && taken.held_operations == 0 && engine_->closed())
      return end();
    for (const Command& command : taken.commands) engine_->accept(command);
    if (taken.closed) engine_->begin_close();
    if (taken.closed && core_->clock.now_ns() >= taken.close_by_ns) {
      if (!abandoned_) engine_->abandon({Code::kUnavailable, std::string(kWords.closed)});
      // The callers were answered one turn before, so those messages are published before the end.
      if (std::exchange(abandoned_, true) && engine_->device_quiet()) return end();
    }
    engine_->turn(taken.commands.empty() ? std::min(most_ns, engine_->next_turn_ns()) : 0);
    return true;
  }
  // Makes the outcomes of the last turn available.
  void publish() {
    engine_->take_outcomes(outcomes_);
    TierFront::View view;
    view.state = engine_->state();
    view.counters = engine_->counters();
    view.most_slot_bytes = engine_->most_slot_bytes();
    core_->front.publish(outcomes_, std::move(view));
  }

 private:
  bool end() {
    core_->front.end();
    return false;
  }

  std::shared_ptr<Core> core_;
  std::unique_ptr<DiskEngine> engine_;
  std::vector<Outcome> outcomes_;
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
    if (Status status = core_->front.open(); !status.ok()) return status;
    if (!threaded) return life_.emplace(core_).start();
    thread_ = std::thread([core = core_] { run(core); });
    std::unique_lock lock(core_->start_mutex);
    core_->start_changed.wait(lock, [this] {
      return core_->start_status.has_value();
    });  // bounded by the start deadline of the device
    started_ = core_->start_status->ok();
    return *core_->start_status;
  }

  Status put(Ticket ticket, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts,
             std::span<const std::byte> slot, std::uint64_t deadline_ns) override {
    if (!tiers::plausible(facts) || slot.size() != facts.slot_bytes() || !tiers::aligned(slot))
      return core_->front.refuse(tiers::malformed_slot());
    Command command{
        Command::Kind::kOperation, Operation::kPut, ticket, key, facts, {}, deadline_ns};
    command.slot = {const_cast<std::byte*>(slot.data()),
                    slot.size()};  // only read: IoRequest has one type for both directions
    return push(std::move(command));
  }
  Status get(Ticket ticket, const tiers::ChunkKey& key, std::span<std::byte> slot,
             std::uint64_t deadline_ns) override {
    if (slot.empty() || !tiers::aligned(slot)) return core_->front.refuse(tiers::malformed_slot());
    return push({Command::Kind::kOperation, Operation::kGet, ticket, key, {}, slot, deadline_ns});
  }
  // No other process writes the file, so the catalog has the complete answer.
  Status probe(Ticket ticket, std::span<const tiers::ChunkKey> keys, std::uint64_t) override {
    if (Status status = tiers::check_probe(keys.size()); !status.ok())
      return core_->front.refuse(std::move(status));
    Message message{Message::Kind::kDone, Operation::kProbe, false, ticket, {}, {}};
    // Answered in the caller's thread: a probe of hundreds of keys would otherwise wait behind the
    // I/O of the tier.
    for (const tiers::ChunkKey& key : keys) message.there.push_back(probe(key).has_value());
    return core_->front.answer(std::move(message));
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

  Status takes(std::uint64_t slot_bytes) const override {
    // 0 until the file is open: put() gives the exact answer later.
    const std::uint64_t most = core_->front.most_slot_bytes();
    if (most == 0 || slot_bytes <= most) return {};
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
    core_->front.forget(
        key,
        located->record.facts
            .generation);  // or the residents would list the chunk until its region is reused
    return std::nullopt;
  }
  void forget(const tiers::ChunkKey& key, std::uint64_t generation) override {
    core_->front.forget(key, generation);
  }
  Status evict(const tiers::ChunkKey& key) override { return core_->front.evict(key); }

  int message_fd() const override { return core_->front.message_fd(); }
  void take_messages(std::vector<Message>& out) override { core_->front.take_messages(out); }
  tiers::TierState state() const override { return core_->front.state(); }
  tiers::TierCounters counters() const override { return core_->front.counters(); }

  bool close(std::uint64_t grace_ms) override {
    core_->front.close(grace_ms);
    // A little longer than the thread needs to notice the deadline and to answer open operations.
    const std::uint64_t at_most_ms = grace_ms + 500;
    if (!life_) return core_->front.wait_ended(at_most_ms);
    const std::uint64_t end_ns = core_->clock.now_ns() + at_most_ms * 1'000'000;
    while (turn(kSteppedTurnNs))
      if (core_->clock.now_ns() >= end_ns) return false;
    return true;
  }
  bool turn(std::uint64_t most_ns) override {
    if (core_->front.wait_ended(0) || !life_->turn(most_ns)) return false;
    life_->publish();
    return true;
  }

 private:
  Status push(Command pushed) {
    // Hidden from here on, so that the caller need not wait for the thread.
    return core_->front.push(std::move(pushed), [this](const Command& command) {
      if (command.operation == Operation::kDrop)
        core_->catalog.hide(command.key.namespace_id);  // mutation: drop-hides
      if (command.operation == Operation::kClear) core_->catalog.hide_all();
    });
  }

  void finish_thread() {
    if (!thread_.joinable()) return;
    // close() gave a grace before; a failed start needs no grace.
    const std::uint64_t grace_ms = !started_               ? 0
                                   : core_->front.closed() ? kClosedGraceMs
                                                           : kDestroyGraceMs;
    if (close(grace_ms))
      thread_.join();
    else
      // A hanging request cannot be cancelled. The thread owns a share of the core, so a late
      // answer finds valid memory.
      thread_.detach();
  }

  std::shared_ptr<Core> core_;
  std::thread thread_;
  bool started_ = false;
  std::optional<Life> life_;  // without a thread
};

}  // namespace

Result<std::unique_ptr<tiers::Tier>> open_disk_tier(Env& env, const base::Clock& clock,
                                                    const DiskOptions& options) {
  auto tier = std::make_unique<DiskTier>(std::make_shared<Core>(env, clock, options));
  if (Status status = tier->start(true); !status.ok()) return status;
  return std::unique_ptr<tiers::Tier>(std::move(tier));
}

Result<std::unique_ptr<SteppedTier>> open_stepped_disk_tier(Env& env, const base::Clock& clock,
                                                            const DiskOptions& options) {
  auto tier = std::make_unique<DiskTier>(std::make_shared<Core>(env, clock, options));
  if (Status status = tier->start(false); !status.ok()) return status;
  return std::unique_ptr<SteppedTier>(std::move(tier));
}

}  // namespace larder::disk
