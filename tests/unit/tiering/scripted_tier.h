// ScriptedTier: a tier whose answers a test decides: refused, held back, failed, or at once. Owned
// by one thread.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/tiers/tier.h"

namespace larder::tiering::testing_support {

class ScriptedTier final : public tiers::Tier {
 public:
  using Message = tiers::Message;
  using Operation = tiers::Operation;

  struct Stored {
    tiers::ChunkKey key;
    tiers::ChunkFacts facts;
    std::vector<std::byte> bytes;
  };

  ScriptedTier() : message_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // ---- The script ----
  Status refusal;             // not ok: the tier takes no command
  Status outcome;             // of the taken commands
  bool hold_back = false;     // answers wait for answer_held()
  bool away = false;          // takes no gets
  Status never;               // not ok: the reason why the tier never takes a chunk
  std::uint64_t dropped = 0;  // the chunks of each drop
  // ---- Received commands ----
  std::vector<Stored> stored;                               // by puts that were answered well
  std::vector<std::optional<protocol::NamespaceId>> drops;  // empty: clear
  std::vector<tiers::ChunkKey> forgotten;
  std::vector<tiers::ChunkKey> evicted;  // by name, and not known
  std::size_t puts = 0, flushes = 0;
  bool closed = false;

  std::size_t held() const { return held_.size(); }
  void answer_held() {
    for (const Held& held : std::exchange(held_, {})) answer(held);
  }
  // As a device that does not let go: the deadline has come, the slot comes back later.
  void miss_deadlines() {
    for (const Held& held : held_)
      say({Message::Kind::kDone,
           held.operation,
           true,
           held.ticket,
           {Code::kDeadlineExceeded, "disk"},
           {}});
  }
  void release_held() {
    for (const Held& held : std::exchange(held_, {}))
      say({Message::Kind::kReleased, held.operation, false, held.ticket, {}, {}});
  }

  Status put(tiers::Ticket ticket, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts,
             std::span<const std::byte> slot, std::uint64_t) override {
    if (slot.size() != facts.slot_bytes()) return {Code::kInvalidArgument, "slot"};
    return take({Operation::kPut, ticket, key, facts, slot}, &ScriptedTier::puts);
  }
  Status get(tiers::Ticket, const tiers::ChunkKey&, std::span<std::byte>, std::uint64_t) override {
    return {Code::kUnavailable, "no gets here"};
  }
  Status probe(tiers::Ticket, std::span<const tiers::ChunkKey>, std::uint64_t) override {
    return {Code::kUnavailable, "no looks here"};
  }
  Status drop_namespace(tiers::Ticket ticket, const protocol::NamespaceId& id,
                        std::uint64_t) override {
    if (refusal.ok()) drops.emplace_back(id);
    return take({Operation::kDrop, ticket, {id, {}, 0, 0}, {}, {}}, nullptr);
  }
  Status clear(tiers::Ticket ticket, std::uint64_t) override {
    if (refusal.ok()) drops.emplace_back();
    return take({Operation::kClear, ticket, {}, {}, {}}, nullptr);
  }
  Status flush(tiers::Ticket ticket, std::uint64_t) override {
    return take({Operation::kFlush, ticket, {}, {}, {}}, &ScriptedTier::flushes);
  }

  Status takes(std::uint64_t) const override { return never; }
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override {
    for (auto chunk = stored.rbegin(); chunk != stored.rend(); ++chunk)
      if (chunk->key == key) return chunk->facts;
    return std::nullopt;
  }
  void forget(const tiers::ChunkKey& key, std::uint64_t) override { forgotten.push_back(key); }
  Status evict(const tiers::ChunkKey& key) override {
    if (probe(key)) return Tier::evict(key);
    evicted.push_back(key);
    return refusal;
  }
  int message_fd() const override { return message_fd_.get(); }
  void take_messages(std::vector<Message>& out) override {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(message_fd_.get(), &count, sizeof(count));
    for (Message& message : std::exchange(messages_, {})) out.push_back(std::move(message));
  }
  tiers::TierState state() const override { return {refusal.ok(), !away, refusal.text()}; }
  tiers::TierCounters counters() const override { return {}; }
  bool close(std::uint64_t) override {
    closed = true;
    return held_.empty();
  }

 private:
  struct Held {
    Operation operation;
    tiers::Ticket ticket;
    tiers::ChunkKey key;
    tiers::ChunkFacts facts;
    std::span<const std::byte> slot;
  };

  Status take(const Held& one, std::size_t ScriptedTier::*count) {
    if (!refusal.ok()) return refusal;
    if (count != nullptr) ++(this->*count);
    if (hold_back)
      held_.push_back(one);
    else
      answer(one);
    return {};
  }
  // Reads the slot as late as a device may.
  void answer(const Held& one) {
    if (one.operation == Operation::kPut && outcome.ok())
      stored.push_back({one.key, one.facts, {one.slot.begin(), one.slot.end()}});
    say({Message::Kind::kDone,
         one.operation,
         false,
         one.ticket,
         outcome,
         {},
         one.operation == Operation::kDrop ? dropped : 0});
  }
  void say(Message message) {
    messages_.push_back(std::move(message));
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(message_fd_.get(), &one, sizeof(one));
  }

  Fd message_fd_;
  std::vector<Held> held_;
  std::vector<Message> messages_;
};

}  // namespace larder::tiering::testing_support
