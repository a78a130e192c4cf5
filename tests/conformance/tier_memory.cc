// The second implementation of Tier: chunks in a map. Shows that the suite asks for no behaviour
// that only a disk has.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "shim/base/fd.h"
#include "tests/conformance/tier_under_test.h"

namespace larder::tiers::testing_support {
namespace {

constexpr std::uint64_t kAcceptedBytes = 16 << 20;

struct KeyOrder {
  static auto tuple(const ChunkKey& key) {
    return std::tuple(key.namespace_id.lo, key.namespace_id.hi, key.hash.lo, key.hash.hi, key.shard,
                      key.group);
  }
  bool operator()(const ChunkKey& a, const ChunkKey& b) const { return tuple(a) < tuple(b); }
};

class MemoryTier final : public Tier {
 public:
  MemoryTier() : message_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  Status put(Ticket ticket, const ChunkKey& key, const ChunkFacts& facts,
             std::span<const std::byte> slot, std::uint64_t) override {
    const std::lock_guard lock(mutex_);
    if (!plausible(facts) || slot.size() != facts.slot_bytes())
      return refuse({Code::kInvalidArgument, "slot"});
    if (slot.size() > kMostSlotBytes) return refuse({Code::kOutOfRange, "too large"});
    if (Status status = admit(slot.size()); !status.ok()) return status;
    chunks_[key] = {facts, {slot.begin(), slot.end()}, next_order_++};
    if (chunks_.size() > kMostChunks) make_room();
    return done({Message::Kind::kDone, Operation::kPut, false, ticket, {}, {}}, slot.size());
  }
  Status get(Ticket ticket, const ChunkKey& key, std::span<std::byte> slot,
             std::uint64_t) override {
    const std::lock_guard lock(mutex_);
    if (Status status = admit(slot.size()); !status.ok()) return status;
    Message message{Message::Kind::kDone, Operation::kGet, false, ticket, {}, {}};
    const auto at = chunks_.find(key);
    if (at == chunks_.end()) {
      message.status = {Code::kNotFound, ""};
    } else if (slot.size() < at->second.bytes.size()) {
      message.status = {Code::kInvalidArgument, "slot"};
    } else {
      std::memcpy(slot.data(), at->second.bytes.data(), at->second.bytes.size());
      message.facts = at->second.facts;
    }
    return done(std::move(message), slot.size());
  }
  Status probe(Ticket ticket, std::span<const ChunkKey> keys, std::uint64_t) override {
    const std::lock_guard lock(mutex_);
    if (keys.empty()) return refuse({Code::kInvalidArgument, "keys"});
    if (keys.size() > kMaxProbeKeys) return refuse({Code::kOutOfRange, "keys"});
    if (closed_) return refuse({Code::kUnavailable, "closed"});
    Message message{Message::Kind::kDone, Operation::kProbe, false, ticket, {}, {}};
    for (const ChunkKey& key : keys) message.there.push_back(chunks_.contains(key));
    return done(std::move(message), 0);
  }
  Status drop_namespace(Ticket ticket, const protocol::NamespaceId& id, std::uint64_t) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return refuse({Code::kUnavailable, "closed"});
    const std::uint64_t dropped =
        std::erase_if(chunks_, [&](const auto& chunk) { return chunk.first.namespace_id == id; });
    Message message{Message::Kind::kDone, Operation::kDrop, false, ticket, {}, {}};
    message.dropped = dropped;
    return done(std::move(message), 0);
  }
  Status clear(Ticket ticket, std::uint64_t) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return refuse({Code::kUnavailable, "closed"});
    const std::uint64_t dropped = chunks_.size();
    chunks_.clear();
    Message message{Message::Kind::kDone, Operation::kClear, false, ticket, {}, {}};
    message.dropped = dropped;
    return done(std::move(message), 0);
  }
  Status flush(Ticket ticket, std::uint64_t) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return refuse({Code::kUnavailable, "closed"});
    return done({Message::Kind::kDone, Operation::kFlush, false, ticket, {}, {}}, 0);
  }
  std::optional<ChunkFacts> probe(const ChunkKey& key) const override {
    const std::lock_guard lock(mutex_);
    const auto at = chunks_.find(key);
    return at == chunks_.end() ? std::nullopt : std::optional(at->second.facts);
  }
  void forget(const ChunkKey& key, std::uint64_t generation) override {
    const std::lock_guard lock(mutex_);
    if (const auto at = chunks_.find(key);
        at != chunks_.end() && at->second.facts.generation == generation)
      chunks_.erase(at);
  }
  int message_fd() const override { return message_fd_.get(); }
  void take_messages(std::vector<Message>& out) override {
    const std::lock_guard lock(mutex_);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(message_fd_.get(), &count, sizeof(count));
    for (Message& message : std::exchange(messages_, {})) out.push_back(std::move(message));
    held_bytes_ = 0;
  }
  TierState state() const override {
    const std::lock_guard lock(mutex_);
    return closed_ ? TierState{false, false, "closed"} : TierState{};
  }
  TierCounters counters() const override {
    const std::lock_guard lock(mutex_);
    TierCounters counters = counters_;
    counters.chunks = chunks_.size();
    counters.in_flight_bytes = held_bytes_;
    return counters;
  }
  bool close(std::uint64_t) override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    return true;
  }

 private:
  struct Chunk {
    ChunkFacts facts;
    std::vector<std::byte> bytes;
    std::uint64_t order = 0;
  };

  Status refuse(Status why) {
    ++counters_.refused;
    return why;
  }
  Status admit(std::uint64_t bytes) {
    if (closed_) return refuse({Code::kUnavailable, "closed"});
    if (bytes % 4096 != 0 || bytes == 0) return refuse({Code::kInvalidArgument, "slot"});
    if (held_bytes_ + bytes > kAcceptedBytes)
      return refuse({Code::kResourceExhausted, "too much in flight"});
    return {};
  }
  Status done(Message message, std::uint64_t bytes) {
    held_bytes_ += bytes;
    const bool ok = message.status.ok();
    if (message.operation == Operation::kPut) ++counters_.puts;
    if (message.operation == Operation::kGet) ++(ok ? counters_.gets : counters_.gets_missed);
    messages_.push_back(std::move(message));
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(message_fd_.get(), &one, sizeof(one));
    return {};
  }
  void make_room() {
    auto oldest = chunks_.begin();
    for (auto at = chunks_.begin(); at != chunks_.end(); ++at)
      if (at->second.order < oldest->second.order) oldest = at;
    chunks_.erase(oldest);
    ++counters_.chunks_evicted;
  }

  Fd message_fd_;
  mutable std::mutex mutex_;
  std::map<ChunkKey, Chunk, KeyOrder> chunks_;
  std::vector<Message> messages_;
  TierCounters counters_;
  std::uint64_t held_bytes_ = 0, next_order_ = 0;
  bool closed_ = false;
};

class MemoryBox final : public TierBox {
 public:
  std::unique_ptr<Tier> open() override { return std::make_unique<MemoryTier>(); }
  bool survives_restart() const override { return false; }
  std::uint64_t most_slot_bytes() const override { return kMostSlotBytes; }
  std::uint64_t accepted_bytes() const override { return kAcceptedBytes; }
  std::uint64_t capacity_chunks_of_1_mib() const override { return kMostChunks; }
};

}  // namespace

std::unique_ptr<TierBox> make_memory_box() {
  return std::make_unique<MemoryBox>();
}

}  // namespace larder::tiers::testing_support
