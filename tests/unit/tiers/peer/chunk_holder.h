// The memory of a peer in the hands of the test: chunks in a map, and a thread that answers the
// server's requests as the loop of larderd does. Thread-safe.
#pragma once

#include <poll.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <vector>

#include "sidecar/tiers/peer/hold_exchange.h"
#include "sidecar/tiers/peer/wire.h"

namespace larder::peer::testing_support {

class ChunkHolder {
 public:
  // `exchange` outlives this object.
  explicit ChunkHolder(HoldExchange& exchange)
      : exchange_(exchange), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  void put(const tiers::ChunkKey& key, const tiers::ChunkFacts& facts,
           std::span<const std::byte> slot) {
    const std::lock_guard lock(mutex_);
    chunks_[key] = {facts, std::make_shared<const std::vector<std::byte>>(slot.begin(), slot.end()),
                    ++last_slot_};
  }
  std::optional<tiers::ChunkFacts> find(const tiers::ChunkKey& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = chunks_.find(key);
    return found == chunks_.end() ? std::nullopt : std::optional(found->second.facts);
  }
  // The chunk that was put first.
  std::optional<tiers::ChunkKey> oldest() const {
    const std::lock_guard lock(mutex_);
    std::optional<tiers::ChunkKey> key;
    std::uint32_t slot = UINT32_MAX;
    for (const auto& [one, chunk] : chunks_)
      if (chunk.slot < slot) {
        key = one;
        slot = chunk.slot;
      }
    return key;
  }
  // Which chunks these are is told by `gone(key)`. Returns their number.
  template <typename Gone>
  std::uint64_t erase_if(const Gone& gone) {
    const std::lock_guard lock(mutex_);
    return std::erase_if(chunks_,
                         [&](const auto& chunk) { return gone(chunk.first, chunk.second.facts); });
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return chunks_.size();
  }
  // Slots that the server holds.
  std::size_t held() const {
    const std::lock_guard lock(mutex_);
    std::size_t all = 0;
    for (const auto& [slot, hold] : held_) all += hold.times;
    return all;
  }
  // From now on no chunk is held, as beyond the budget; requests wait until let_go().
  void refuse_holds() { refuses_ = true; }
  void stand_still() { still_ = true; }
  void go_on() { still_ = false; }

 private:
  struct Chunk {
    tiers::ChunkFacts facts;
    std::shared_ptr<const std::vector<std::byte>> bytes;
    std::uint32_t slot = 0;
  };
  struct Hold {
    std::shared_ptr<const std::vector<std::byte>> bytes;
    std::size_t times = 0;
  };

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd waiting{exchange_.request_fd(), POLLIN, 0};
      ::poll(&waiting, 1, 10);
      if (still_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      HoldExchange::Waiting asked = exchange_.take_requests();
      const std::lock_guard lock(mutex_);
      for (const HeldChunk& chunk : asked.given_back) give_back(chunk);
      for (const HoldRequest& request : asked.requests) exchange_.answer(answer(request));
    }
  }
  HoldReply answer(const HoldRequest& request) {
    HoldReply reply{request.connection, {}};
    for (const tiers::ChunkKey& key : request.keys) {
      reply.chunks.emplace_back();
      const auto found = chunks_.find(key);
      if (found == chunks_.end()) continue;
      const Chunk& chunk = found->second;
      reply.chunks.back() =
          HeldChunk{chunk.facts, *chunk.bytes, chunk.slot, request.hold && !refuses_};
      if (!reply.chunks.back()->held) continue;
      Hold& hold = held_[chunk.slot];
      hold.bytes = chunk.bytes;
      ++hold.times;
    }
    return reply;
  }
  void give_back(const HeldChunk& chunk) {
    const auto found = held_.find(chunk.slot_number);
    if (found == held_.end()) std::abort();  // given back twice
    if (--found->second.times == 0) held_.erase(found);
  }

  HoldExchange& exchange_;
  mutable std::mutex mutex_;
  std::unordered_map<tiers::ChunkKey, Chunk, KeyHash> chunks_;
  std::map<std::uint32_t, Hold> held_;  // by slot; keeps the bytes
  std::uint32_t last_slot_ = 0;
  std::atomic<bool> refuses_{false}, still_{false};
  std::jthread thread_;  // last
};

}  // namespace larder::peer::testing_support
