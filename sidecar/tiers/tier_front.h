// TierFront: carries commands from the loop to the thread of a tier, and messages back, within
// bounds. One mutex guards all state and is never held during I/O. Thread-safe, except open().
//
// The front neither owns nor starts a thread: the tier runs its engine, in a thread or step by
// step, and calls take(), publish() and end(). Times are of the clock, which outlives the front.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/base/clock.h"
#include "sidecar/tiers/command.h"

namespace larder::tiers {

// Whether the slot begins at a block and is whole blocks, as every device needs.
bool aligned(std::span<const std::byte> slot);
Status malformed_slot();
// The refusal of a probe of so many keys, or ok.
Status check_probe(std::size_t keys);

class TierFront {
 public:
  // The most that may be accepted at once. evictions: that may wait for the tier's thread. A forget
  // is refused while 2 * operations commands wait, and as many messages wait for the loop at most.
  struct Bounds {
    std::uint64_t bytes = 0;
    std::uint32_t operations = 0;
    std::size_t probes = SIZE_MAX, drops = SIZE_MAX, evictions = 16'384;
  };
  // The texts of refusals, which name the device. All outlive the front.
  struct Words {
    std::string_view closed, too_much, too_many_evictions;
    Status (*too_large)(std::uint64_t slot_bytes, std::uint64_t most_bytes);
  };
  // The engine as the loop sees it, as of the last publish().
  struct View {
    TierState state;
    TierCounters counters;                 // without `refused` and in_flight_bytes
    std::size_t drops = 0, evictions = 0;  // not done yet
    std::uint64_t most_slot_bytes = 0;     // 0: unknown
  };
  struct Taken {
    std::vector<Command> commands;
    bool closed = false;
    std::uint64_t close_by_ns = 0;
    std::uint32_t held_operations = 0;  // accepted and not free yet, these commands included
  };

  TierFront(const base::Clock& clock, const Bounds& bounds, const Words& words)
      : clock_(clock), bounds_(bounds), words_(words) {}
  TierFront(const TierFront&) = delete;

  // Makes the descriptor of messages. Once, before any other call.
  Status open();
  // Called under the mutex after every command and after close(), until end(). Must not block.
  void set_wake(std::function<void()> wake);

  // Accepts an operation, or counts the refusal: kUnavailable (closed, degraded), kOutOfRange,
  // kResourceExhausted. `hide(command)` runs under the mutex,
  // before the engine may see the command.
  template <class Hide>
  Status push(Command command, const Hide& hide) {
    const std::lock_guard lock(mutex_);
    if (Status status = admissible(command); !status.ok()) return refused(std::move(status));
    hide(std::as_const(command));
    accept(std::move(command));
    return {};
  }
  // Counts a refusal by the tier itself, and returns the status.
  Status refuse(Status status);
  // Answers a get or probe at once, or counts the refusal, also if too many messages wait.
  Status answer(Message message);
  // Both without a message. A forget beyond the bound is lost: the chunk is found bad once more.
  void forget(const ChunkKey& key, std::uint64_t generation);
  Status evict(const ChunkKey& key);

  int message_fd() const { return message_fd_.get(); }
  void take_messages(std::vector<Message>& out);
  TierState state() const;
  TierCounters counters() const;
  std::uint64_t most_slot_bytes() const;

  // Accepts no operation from here on; those in flight have `grace_ms`.
  void close(std::uint64_t grace_ms);
  bool closed() const;
  // Waits for end(), at most so long. False: not ended.
  bool wait_ended(std::optional<std::uint64_t> most_ms);

  // For the thread of the tier.
  Taken take();
  void publish(std::vector<Outcome>& outcomes, View view);
  // The engine will see no command any more.
  void end();

 private:
  // All REQUIRE: the mutex.
  Status admissible(const Command& command) const;
  Status refused(Status status);
  void accept(Command command);
  void enqueue(Command command);
  void tell_messages() const;

  const base::Clock& clock_;
  const Bounds bounds_;
  const Words words_;
  Fd message_fd_;

  mutable std::mutex mutex_;
  std::condition_variable ended_changed_;
  std::function<void()> wake_;
  std::vector<Command> commands_;
  std::vector<Message> messages_;
  View view_;
  std::uint64_t refused_ = 0;
  std::uint64_t held_bytes_ = 0;  // of accepted operations whose slot is not free yet
  std::uint32_t held_operations_ = 0;
  std::size_t held_probes_ = 0;
  bool closed_ = false, ended_ = false;
  std::uint64_t close_by_ns_ = 0;
};

}  // namespace larder::tiers
