// A tier in the hands of the test: chunks in a map, and a get is answered when the test says so.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sidecar/tiers/tier.h"

namespace larder::tiering::testing_support {

class HeldTier final : public tiers::Tier {
 public:
  struct Get {
    tiers::Ticket ticket = 0;
    tiers::ChunkKey key;
    std::span<std::byte> slot;
    std::uint64_t deadline_ns = 0;
  };

  void store(const tiers::ChunkKey& key, const tiers::ChunkFacts& facts,
             std::vector<std::byte> bytes) {
    chunks_[order(key)] = {facts, std::move(bytes)};
  }
  void lose(const tiers::ChunkKey& key) { chunks_.erase(order(key)); }
  // Gets that wait, oldest first.
  const std::deque<Get>& waiting() const { return waiting_; }
  std::uint64_t gets() const { return gets_; }
  // The oldest get ends: well, or with this status. Busy: the device keeps the slot until
  // release().
  void finish_one(Status status = {}, bool busy = false) {
    const Get get = waiting_.front();
    waiting_.pop_front();
    tiers::Message message{tiers::Message::Kind::kDone,
                           tiers::Operation::kGet,
                           busy,
                           get.ticket,
                           std::move(status),
                           {}};
    const auto found = chunks_.find(order(get.key));
    if (message.status.ok() && found == chunks_.end()) message.status = {Code::kNotFound, ""};
    if (message.status.ok()) {
      std::memcpy(get.slot.data(), found->second.bytes.data(), found->second.bytes.size());
      message.facts = found->second.facts;
    }
    messages_.push_back(std::move(message));
    if (busy) busy_.push_back(get);
  }
  void finish_all() {
    while (!waiting_.empty()) finish_one();
  }
  void release() {
    for (const Get& get : std::exchange(busy_, {})) {
      std::memset(get.slot.data(), 0x5a, get.slot.size());  // until now the device wrote
      messages_.push_back(
          {tiers::Message::Kind::kReleased, tiers::Operation::kGet, false, get.ticket, {}, {}});
    }
  }
  void degrade() { state_ = {false, false, "test"}; }
  // Waiting probes, oldest first. The oldest is answered: by the present chunks, or with this
  // status.
  struct Probe {
    tiers::Ticket ticket = 0;
    std::vector<tiers::ChunkKey> keys;
  };
  const std::deque<Probe>& probes() const { return tier_probes_; }
  void finish_probe(Status status = {}) {
    tiers::Message message{tiers::Message::Kind::kDone, tiers::Operation::kProbe, false,
                           tier_probes_.front().ticket, std::move(status),        {}};
    for (const tiers::ChunkKey& key : tier_probes_.front().keys)
      if (message.status.ok()) message.there.push_back(chunks_.contains(order(key)));
    tier_probes_.pop_front();
    messages_.push_back(std::move(message));
  }
  std::size_t most_probes = 16;
  // Of many devices: a chunk is on the device of its hash.
  std::uint32_t device(const tiers::ChunkKey& key) const override {
    return static_cast<std::uint32_t>(key.hash.lo % tiers::kMaxDevices);
  }
  // The oldest get of this device ends well.
  void finish_one_of(std::uint32_t device) {
    const auto found = std::ranges::find_if(
        waiting_, [&](const Get& get) { return this->device(get.key) == device; });
    std::rotate(waiting_.begin(), found, found + 1);
    finish_one();
  }

  Status put(tiers::Ticket, const tiers::ChunkKey&, const tiers::ChunkFacts&,
             std::span<const std::byte>, std::uint64_t) override {
    return {Code::kUnavailable, "not here"};
  }
  Status get(tiers::Ticket ticket, const tiers::ChunkKey& key, std::span<std::byte> slot,
             std::uint64_t deadline_ns) override {
    if (!state_.takes_gets) return {Code::kUnavailable, state_.reason};
    ++gets_;
    waiting_.push_back({ticket, key, slot, deadline_ns});
    return {};
  }
  Status probe(tiers::Ticket ticket, std::span<const tiers::ChunkKey> keys,
               std::uint64_t) override {
    if (!state_.takes_gets) return {Code::kUnavailable, state_.reason};
    if (tier_probes_.size() >= most_probes) return {Code::kResourceExhausted, "too many looks"};
    tier_probes_.push_back({ticket, {keys.begin(), keys.end()}});
    return {};
  }
  Status drop_namespace(tiers::Ticket, const protocol::NamespaceId&, std::uint64_t) override {
    return {};
  }
  Status clear(tiers::Ticket, std::uint64_t) override { return {}; }
  Status flush(tiers::Ticket, std::uint64_t) override { return {}; }
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override {
    const auto found = chunks_.find(order(key));
    return found == chunks_.end() ? std::nullopt : std::optional(found->second.facts);
  }
  void forget(const tiers::ChunkKey& key, std::uint64_t) override { lose(key); }
  int message_fd() const override { return -1; }
  void take_messages(std::vector<tiers::Message>& out) override {
    out = std::exchange(messages_, {});
  }
  tiers::TierState state() const override { return state_; }
  tiers::TierCounters counters() const override { return {}; }
  bool close(std::uint64_t) override { return true; }

 private:
  using Order = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                           std::uint16_t, std::uint16_t>;
  static Order order(const tiers::ChunkKey& key) {
    return {key.namespace_id.lo, key.namespace_id.hi, key.hash.lo,
            key.hash.hi,         key.shard,           key.group};
  }
  struct Chunk {
    tiers::ChunkFacts facts;
    std::vector<std::byte> bytes;
  };

  std::map<Order, Chunk> chunks_;
  std::deque<Get> waiting_;
  std::vector<Get> busy_;
  std::deque<Probe> tier_probes_;
  std::vector<tiers::Message> messages_;
  tiers::TierState state_;
  std::uint64_t gets_ = 0;
};

}  // namespace larder::tiering::testing_support
